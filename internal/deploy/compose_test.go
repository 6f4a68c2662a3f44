package deploy_test

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/loader"
	"github.com/compose-spec/compose-go/v2/types"
)

const root = "../.."

// Placeholder secrets, each different, so that the test can find where each one is used.
func secrets() map[string]string {
	return map[string]string{
		"MYSQL_PASSWORD":         "stand-in-for-the-mysql-password",
		"SECKILL_REDIS_PASSWORD": "stand-in-for-the-redis-password",
		"SECKILL_JWT_SECRET":     "stand-in-for-the-jwt-secret-of-32-bytes",
		"SECKILL_ADMIN_TOKEN":    "stand-in-for-the-admin-token",
	}
}

var everyProfile = []string{"locks", "zookeeper", "cluster", "sentinel", "galera", "load", "lab", "observe"}

func TestServices(t *testing.T) {
	base := []string{"api", "balancer", "mysql", "redis"}
	for profile, more := range map[string][]string{
		"":          nil,
		"locks":     {"redis-lock-1", "redis-lock-2", "redis-lock-3", "redis-lock-4", "redis-lock-5"},
		"zookeeper": {"zookeeper-1", "zookeeper-2", "zookeeper-3"},
		"cluster":   {"redis-cluster-1", "redis-cluster-2", "redis-cluster-3"},
		"sentinel":  {"redis-replica", "sentinel-1", "sentinel-2", "sentinel-3"},
		"galera":    {"galera-1", "galera-2", "galera-3"},
		"load":      {"k6"},
		"lab":       {"lab"},
		"observe":   {"prometheus", "grafana", "jaeger"},
	} {
		t.Run("profile "+profile, func(t *testing.T) {
			want := slices.Sorted(slices.Values(append(slices.Clone(base), more...)))
			got := slices.Sorted(maps.Keys(mustLoad(t, secrets(), profile).Services))
			if !slices.Equal(got, want) {
				t.Errorf("services %v, want %v", got, want)
			}
		})
	}
}

func TestRefusesToStartWithoutSecrets(t *testing.T) {
	for name := range secrets() {
		for what, value := range map[string]*string{"missing": nil, "empty": new("")} {
			t.Run(name+" "+what, func(t *testing.T) {
				env := secrets()
				delete(env, name)
				if value != nil {
					env[name] = *value
				}
				_, err := load(t, env)
				if err == nil || !strings.Contains(err.Error(), "set "+name) {
					t.Errorf("got %v, want an error that says to set %s", err, name)
				}
			})
		}
	}
}

// With files for secrets, no variable of a container has a secret, and each file is mounted where its variable says.
func TestSecretsFromFiles(t *testing.T) {
	folder := t.TempDir()
	env := map[string]string{"SECKILL_MYSQL_DSN": ""}
	for _, name := range []string{"MYSQL_PASSWORD_FILE", "SECKILL_REDIS_PASSWORD_FILE", "SECKILL_MYSQL_DSN_FILE", "SECKILL_JWT_SECRET_FILE", "SECKILL_ADMIN_TOKEN_FILE", "SECKILL_PAYMENT_API_KEY_FILE", "SECKILL_PAYMENT_WEBHOOK_SECRET_FILE"} {
		env[name] = filepath.Join(folder, name)
	}
	ours := map[string]string{ // the variables of servers that are called otherwise in .env
		"REDIS_PASSWORD_FILE": "SECKILL_REDIS_PASSWORD_FILE", "JWT_SECRET_FILE": "SECKILL_JWT_SECRET_FILE", "ADMIN_TOKEN_FILE": "SECKILL_ADMIN_TOKEN_FILE",
		"MARIADB_PASSWORD_FILE": "MYSQL_PASSWORD_FILE",
	}
	project := mustLoad(t, env, everyProfile...)
	for _, name := range []string{"api", "mysql", "redis", "redis-lock-1", "redis-cluster-1", "redis-replica", "sentinel-1", "galera-1", "k6"} {
		service := project.Services[name]
		mounted := map[string]string{} // by path in the container
		for _, secret := range service.Secrets {
			mounted["/run/secrets/"+secret.Source] = project.Secrets[secret.Source].File
		}
		files := 0
		for key, value := range service.Environment {
			if plain, file := strings.CutSuffix(key, "_FILE"); file {
				files++
				given := env[cmp.Or(ours[key], key)]
				if given == "" || mounted[*value] != given || setting(service, plain) != "" {
					t.Errorf("%s: %s is %s, which is %q, and %s is %q", name, key, *value, mounted[*value], plain, setting(service, plain))
				}
			}
		}
		if files != len(service.Secrets) || files == 0 {
			t.Errorf("%s: %d secrets are mounted, and %d variables name one", name, len(service.Secrets), files)
		}
	}
}

// Every variable that is called a secret comes from the caller's environment.
func TestNoSecretIsWrittenDown(t *testing.T) {
	secretive := regexp.MustCompile(`PASSWORD|SECRET|TOKEN|DSN`)
	var checked int
	for name, service := range everyService(t) {
		for key, value := range service.Environment {
			if !secretive.MatchString(key) || strings.HasSuffix(key, "_RANDOM_ROOT_PASSWORD") {
				continue
			}
			if key == "SECKILL_PAYMENT_WEBHOOK_SECRET" && *value == "" { // without a provider there is none
				continue
			}
			if strings.HasSuffix(key, "_FILE") {
				if *value != "" {
					t.Errorf("%s: %s is %q, and the secret was given as a variable", name, key, *value)
				}
				continue
			}
			checked++
			if value == nil || !strings.Contains(*value, "stand-in-for-the-") {
				t.Errorf("%s: %s does not come from the caller", name, key)
			}
		}
		if service.Build != nil && len(service.Build.Args) > 0 {
			t.Errorf("%s: build arguments stay readable in the image", name)
		}
	}
	if checked == 0 {
		t.Error("no secret found at all")
	}
}

// Compose builds all images in parallel. On a machine without earlier builds, a second image with the same name fails with
// "already exists".
func TestEveryImageIsBuiltOnce(t *testing.T) {
	builder := map[string]string{}
	services := everyService(t)
	for name, service := range services {
		if service.Build == nil {
			continue
		}
		if other, taken := builder[service.Image]; taken {
			t.Errorf("%s and %s both build %s", name, other, service.Image)
		}
		builder[service.Image] = name
	}
	if api := services["api"]; api.Image != "seckill:local" || builder[api.Image] != "api" {
		t.Errorf("api runs %s, which is built by %q", api.Image, builder[api.Image])
	}
}

func TestPublishesOnLoopbackOnly(t *testing.T) {
	published := map[string]string{}
	for name, service := range everyService(t) {
		for _, port := range service.Ports {
			if port.HostIP != "127.0.0.1" {
				t.Errorf("%s: port %s is published on %q", name, port.Published, port.HostIP)
			}
			if other, taken := published[port.Published]; taken {
				t.Errorf("%s and %s both publish port %s", name, other, port.Published)
			}
			published[port.Published] = name
		}
	}
	want := map[string]string{"8080": "balancer", "9090": "prometheus", "3000": "grafana", "16686": "jaeger"}
	if !maps.Equal(published, want) {
		t.Errorf("published %v, want %v", published, want)
	}
}

func TestEveryServerIsHealthCheckedRestartedAndLimited(t *testing.T) {
	for name, service := range everyService(t) {
		if service.Deploy == nil || service.Deploy.Resources.Limits == nil || service.Deploy.Resources.Limits.MemoryBytes == 0 {
			t.Errorf("%s: no limit of memory", name)
		}
		if name == "k6" || name == "lab" { // runs once
			continue
		}
		h := service.HealthCheck
		if h == nil || len(h.Test) < 2 || h.Interval == nil || h.Timeout == nil || h.Retries == nil || h.StartPeriod == nil {
			t.Errorf("%s: health check is missing or incomplete: %+v", name, h)
		}
		if service.Restart != "unless-stopped" {
			t.Errorf("%s: restart is %q", name, service.Restart)
		}
	}
}

func TestDependsOnWhatIsHealthy(t *testing.T) {
	services := everyService(t)
	for name, service := range services {
		for on, dependency := range service.DependsOn {
			// A node of Galera joins when another one serves, and all may have to start before one does.
			nodes := strings.HasPrefix(name, "galera") && strings.HasPrefix(on, "galera")
			if dependency.Condition != types.ServiceConditionHealthy && !nodes {
				t.Errorf("%s depends on %s with condition %s", name, on, dependency.Condition)
			}
			if services[on].HealthCheck == nil {
				t.Errorf("%s waits for the health of %s, which is not checked", name, on)
			}
		}
	}
	for on, dependency := range services["api"].DependsOn {
		base := len(services[on].Profiles) == 0
		if dependency.Required != base {
			t.Errorf("api: required is %v for %s, whose profiles are %v", dependency.Required, on, services[on].Profiles)
		}
	}
	for name, on := range map[string][]string{"api": {"mysql", "redis"}, "balancer": {"api"}, "k6": {"balancer"}} {
		for _, on := range on {
			if _, ok := services[name].DependsOn[on]; !ok {
				t.Errorf("%s does not wait for %s", name, on)
			}
		}
	}
}

// The instances write to two nodes of three, and the nodes are stopped one by one.
func TestGaleraHasTwoWriters(t *testing.T) {
	services := everyService(t)
	written := regexp.MustCompile(`(?m)^#SECKILL_MYSQL_DSN=.*@tcp\((\w+):3306\)/seckill$`).FindStringSubmatch(read(t, ".env.example"))
	if written == nil {
		t.Fatal(".env.example has no DSN of the cluster")
	}
	var writers []string
	for name, service := range services {
		if stores := service.Networks["stores"]; stores != nil && slices.Contains(stores.Aliases, written[1]) {
			writers = append(writers, name)
		}
	}
	if slices.Sort(writers); !slices.Equal(writers, []string{"galera-1", "galera-2"}) {
		t.Errorf("%s is the name of %v", written[1], writers)
	}
	for name, before := range map[string]string{"galera-2": "galera-1", "galera-3": "galera-2"} {
		if _, ok := services[name].DependsOn[before]; !ok {
			t.Errorf("%s is not stopped before %s", name, before)
		}
	}
	if script := read(t, "scripts/containers/start-galera.sh"); !strings.Contains(script, "gcomm://galera-1,galera-2,galera-3") || !strings.Contains(script, "--wsrep-sst-donor=galera-3,") {
		t.Error("scripts/containers/start-galera.sh knows other nodes")
	}
}

func TestDataSurvivesInNamedVolumes(t *testing.T) {
	project := mustLoad(t, secrets(), everyProfile...)
	usedBy := map[string]string{}
	for name, service := range project.Services {
		for _, v := range service.Volumes {
			if v.Type != types.VolumeTypeVolume {
				continue
			}
			if other, taken := usedBy[v.Source]; taken {
				t.Errorf("%s and %s share volume %s", name, other, v.Source)
			}
			usedBy[v.Source] = name
		}
	}
	if declared, used := slices.Sorted(maps.Keys(project.Volumes)), slices.Sorted(maps.Keys(usedBy)); !slices.Equal(declared, used) {
		t.Errorf("volumes declared %v, used %v", declared, used)
	}
	for name, service := range project.Services {
		stores := name == "mysql" || strings.HasPrefix(name, "galera") || strings.HasPrefix(name, "zookeeper") || strings.HasPrefix(name, "redis") || strings.HasPrefix(name, "sentinel")
		if stores && !slices.Contains(slices.Collect(maps.Values(usedBy)), name) {
			t.Errorf("%s keeps its data nowhere", name)
		}
		if strings.HasPrefix(name, "redis") && !slices.Contains(service.Command, "--appendonly") {
			t.Errorf("%s does not keep an append-only file: %v", name, service.Command)
		}
	}
}

// Nothing that a container writes grows for ever, and only volumes are written to.
func TestWhatContainersWriteIsBounded(t *testing.T) {
	for name, service := range everyService(t) {
		if l := service.Logging; l == nil || l.Driver != "json-file" || l.Options["max-size"] == "" || l.Options["max-file"] == "" {
			t.Errorf("%s: its log is not rotated: %+v", name, l)
		}
		for _, v := range service.Volumes {
			if v.Type != types.VolumeTypeVolume && !v.ReadOnly || v.Type == types.VolumeTypeVolume && v.Source == "" {
				t.Errorf("%s: %s is neither a named volume nor read-only", name, v.Target)
			}
		}
		if name == "mysql" && !slices.ContainsFunc(service.Command, func(arg string) bool { return strings.HasPrefix(arg, "--binlog-expire-logs-seconds=") }) {
			t.Errorf("the binary log of %s stays for a month: %v", name, service.Command)
		}
		if !strings.HasPrefix(name, "redis") {
			continue
		}
		if at := slices.Index(service.Command, "--save"); at < 0 || service.Command[at+1] != "" {
			t.Errorf("%s writes snapshots beside its append-only file: %v", name, service.Command)
		}
		// A rewrite of the append-only file forks, and may copy every page. 64 MiB are for the rest of the process.
		var data int64
		if _, err := fmt.Sscanf(service.Command[slices.Index(service.Command, "--maxmemory")+1], "%dmb", &data); err != nil {
			t.Errorf("%s: maxmemory: %v", name, err)
		}
		if limit := int64(service.Deploy.Resources.Limits.MemoryBytes); 2*data<<20+64<<20 > limit {
			t.Errorf("%s: %d MB of data do not survive a rewrite in %d bytes", name, data, limit)
		}
	}
}

func TestLabModeIsOffUnlessAskedFor(t *testing.T) {
	for _, on := range []bool{false, true} {
		env, want := secrets(), "0"
		if on {
			env["SECKILL_LAB"], env["SECKILL_LAB_ALLOW_REMOTE"], want = "1", "1", "1"
		}
		api := mustLoad(t, env).Services["api"]
		for _, name := range []string{"SECKILL_LAB", "SECKILL_LAB_ALLOW_REMOTE"} {
			if got := setting(api, name); got != want {
				t.Errorf("asked for: %v; %s is %q, want %q", on, name, got, want)
			}
		}
	}
}

func TestLoadIsToldWhatTheScriptKnows(t *testing.T) {
	script := read(t, "loadtest/seckill.js")
	k6 := everyService(t)["k6"]
	for name := range k6.Environment {
		if name == "GOMEMLIMIT" { // is read by Go's runtime, not by the script
			continue
		}
		if !regexp.MustCompile(`(?m)^//.*\b` + name + `\b`).MatchString(script) {
			t.Errorf("loadtest/seckill.js does not document %s", name)
		}
	}
	if got, want := setting(k6, "BASE_URL"), "http://balancer:8080"; got != want {
		t.Errorf("BASE_URL is %q, want %q", got, want)
	}
	for _, v := range k6.Volumes {
		if v.Source != abs(t, "loadtest") || !v.ReadOnly {
			t.Errorf("mounts %s, read-only %v; want loadtest, read-only", v.Source, v.ReadOnly)
		}
	}
}

// The names and ports in the files of Prometheus and of the balancer are those of the services.
func TestEveryInstanceIsScrapedAndBalanced(t *testing.T) {
	project := mustLoad(t, secrets(), everyProfile...)
	api := project.Services["api"]
	_, port, _ := strings.Cut(setting(api, "SECKILL_ADDR"), ":")
	network, debug, _ := strings.Cut(setting(api, "SECKILL_DEBUG_ADDR"), ":")
	if pool := project.Networks["instances"].Ipam.Config; len(pool) != 1 || pool[0].Subnet != network {
		t.Errorf("the debug listeners are in %s, which is not the network instances: %+v", network, pool)
	}
	scraped := regexp.MustCompile(`names: \[api\]\s+type: A\s+port: ` + debug + `\n`)
	if content := project.Configs["prometheus"].Content; !scraped.MatchString(content) || !strings.Contains(content, "targets: [balancer:8404]") {
		t.Errorf("api:%s or the balancer is not scraped:\n%s", debug, content)
	}
	balancer := read(t, "docs/haproxy/haproxy.cfg")
	for _, want := range []string{"api:" + port + " resolvers docker", "check port " + debug + " ", "httpchk GET /readyz", "bind :8080", "bind :8404"} {
		if !strings.Contains(balancer, want) {
			t.Errorf("docs/haproxy/haproxy.cfg has no %q", want)
		}
	}
	if name := setting(api, "SECKILL_LAB_HOSTS"); setting(project.Services["k6"], "BASE_URL") != "http://"+name+":8080" {
		t.Errorf("k6 calls %s, and lab mode answers to %s", setting(project.Services["k6"], "BASE_URL"), name)
	}
	// A second instance of the service must be possible: no name, and no port of this machine, of its own.
	if api.ContainerName != "" || len(api.Ports) > 0 || api.Deploy.Replicas == nil || *api.Deploy.Replicas < 2 {
		t.Errorf("api cannot be scaled: name %q, ports %v", api.ContainerName, api.Ports)
	}
}

func everyService(t *testing.T) types.Services {
	t.Helper()
	return mustLoad(t, secrets(), everyProfile...).Services
}

func mustLoad(t *testing.T, env map[string]string, profiles ...string) *types.Project {
	t.Helper()
	project, err := load(t, env, profiles...)
	if err != nil {
		t.Fatal(err)
	}
	return project
}

// load parses the file as docker compose does, with interpolation, schema and consistency checks.
func load(t *testing.T, env map[string]string, profiles ...string) (*types.Project, error) {
	t.Helper()
	details := types.ConfigDetails{
		WorkingDir:  abs(t, "."),
		ConfigFiles: []types.ConfigFile{{Filename: abs(t, "docker-compose.yml")}},
		Environment: env,
	}
	project, err := loader.LoadWithContext(t.Context(), details, loader.WithProfiles(profiles), func(o *loader.Options) {
		o.ResolvePaths = true
	})
	if err != nil {
		return nil, fmt.Errorf("load docker-compose.yml: %w", err)
	}
	return project, nil
}

func setting(service types.ServiceConfig, name string) string {
	if v := service.Environment[name]; v != nil {
		return *v
	}
	return ""
}

func abs(t *testing.T, path string) string {
	t.Helper()
	p, err := filepath.Abs(filepath.Join(root, path))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
