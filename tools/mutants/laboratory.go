package main

// inLaboratory lists faults of what judges, of the service's settings, and of what deploys it.
func inLaboratory() []mutant {
	const (
		judge   = "./internal/lab/judge"
		service = "./internal/service"
	)
	return []mutant{
		{"a release of another's lock is not seen", "internal/lab/judge/exclusion.go",
			"c.Releasing.At >= v.At || !c.ownAt(v.At)", "c.Releasing.At >= v.At && !c.ownAt(v.At)", judge},
		{"two holders at a time are not seen", "internal/lab/judge/exclusion.go", "before.End > g.At {", "before.End > g.End {", judge},
		{"a key that stays for ever is not seen", "internal/lab/judge/store.go", "k.Expires != Never &&", "k.Expires == Never &&", judge},
		{"a stale write that the fence let pass is not seen", "internal/lab/judge/exclusion.go",
			"s.Write.Mode == eventlog.ModeFenced && !committedBefore(", "s.Write.Mode == eventlog.ModeFenced && committedBefore(", judge},
		{"units that nobody has are not seen if more buyers were refused than units are left", "internal/lab/judge/stock.go",
			"return min(empty, int(", "return max(empty, int(", judge},
		{"an unexpected verdict ends with exit code 0", "cmd/lab/run.go",
			"if !r.AsExpected && (len(r.Changed) == 0", "if r.AsExpected && (len(r.Changed) == 0", "./cmd/lab"},
		{"all tokens are of one user", "cmd/lab/tokens.go", "identify(req.first + i)", "identify(req.first)", "./cmd/lab"},
		{"adversities are never sampled", "internal/lab/explore/sample.go",
			"w.points[0] <= len(b.steps)", "w.points[0] < 0", "./internal/lab/explore"},
		{"a sampled schedule is not shrunk", "internal/lab/explore/sample.go",
			"better := func(d *candidate) bool { return d.before(c) }", "better := func(*candidate) bool { return false }", "./internal/lab/explore"},
		{"experiments are missing in the catalogue", "internal/lab/experiments/experiments.go",
			"connections(), pauses(), failovers()", "connections(), failovers()", "./internal/lab/catalogue ./internal/lab/experiments"},
		{"an experiment holds although nobody looked", "internal/lab/run.go",
			"r.Observed == finding.Holds && missing", "r.Observed == finding.Breaks && missing", "./internal/lab"},
		{"a run whose situation did not arise comes to a verdict", "internal/lab/run.go",
			"t.situation != nil && !t.situation.Arose(j.History)", "t.situation != nil && t.situation.Arose(j.History)", "./internal/lab"},
		{"the picture has a winner that changed nothing which the loser had read", "internal/lab/witness/picture.go",
			"w.Write.Version == loser.Write.Version", "w.Write.Version != loser.Write.Version", "./internal/lab/witness"},
		{"a renewal is not drawn", "internal/lab/judge/store.go", "k.Expires < expires-renewalStep", "k.Expires > expires-renewalStep", "./internal/lab/witness"},
		{"the laboratory obeys a form of another site", "internal/lab/server/http.go",
			"if site.Check(r) == nil {", "if site.Check(r) == nil || r.Method == http.MethodPost {", "./internal/lab/server"},
		{"a level is won beyond its budget", "internal/lab/server/scheduler.go", "out.Reached = !out.Over && ", "out.Reached = ", "./internal/lab/server"},
		{"an experiment runs before its outcome was predicted", "internal/web/static/labrun.js",
			"go.disabled = busy || draft.predict === '' ||", "go.disabled = busy ||", "./internal/lab/server"},
		{"the children of a test that died live on", "internal/testkit/reaper.go", `kill -KILL "-$group" 2>/dev/null`, ":", "./internal/testkit"},
		{"a short secret is accepted", "internal/service/config_secret.go", "if len(secret) < shortest {", "if len(secret) < shortest-40 {", service},
		{"a replica that sentinels may promote is not asked whether it evicts", "internal/rediswatch/query.go", "if addrOf(primary) == behindSentinels {", "if false {", "./internal/rediswatch"},
		{"two names of one server are two lock nodes", "internal/service/redis_kind.go", "len(addrs) > 1", "len(addrs) > 2", service},
		{"a node of a cluster is taken for all of it", "internal/service/redis_kind.go", `!cluster && mode == "cluster":`, `!cluster && mode == "none":`, service},
		{"TLS settings without TLS are ignored", "internal/service/config_tls.go", `if value != "" && !t.On {`, `if value != "" && false {`, service},
		{"the certificate of Redis is not checked", "internal/service/config_tls.go", "MinVersion: tls.VersionTLS12,", "MinVersion: tls.VersionTLS12, InsecureSkipVerify: true,", service},
		{"pools that are too large are not reported", "internal/service/config_mysql.go", "c.Pools > min(", "c.Pools > 10*min(", service},
		{"a start gives up when the database has no connection left", "internal/database/connections.go", "if ClassOf(err) != TooManyConnections {", "if true {", "./internal/database"},
		{"a byte order mark becomes part of a secret", "internal/auth/secret.go", `case strings.HasPrefix(secret, "\ufeff"):`, "case false:", "./internal/auth"},
		{"the URL for traces is a base", "internal/service/config_traces.go", "return tracesConfig{whole, tracesURL}", `return tracesConfig{whole + "/v1/traces", tracesURL}`, service},
		{"one secret serves two purposes", "internal/service/config_secret.go",
			`if one.value != "" && one.value == other.value {`, "if false {", service},
		{"lab mode listens beyond loopback", "internal/service/config.go",
			"case c.Lab && !c.LabAllowRemote && !loopback(c.Addr):", "case false:", service},
		{"half of the nodes make red ready", "internal/service/readiness.go",
			"int(answers.Load()) <= len(nodes)/2", "int(answers.Load()) < len(nodes)/2", service},
		{"a stop does not wait until the balancer has noticed", "internal/service/serve.go", "		time.Sleep(delay)\n", "", service},
		{"reconcile says that all is well", "internal/service/reconcile.go", "if !report.Balanced {", "if false {", service},
	}
}
