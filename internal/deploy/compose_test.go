package deploy_test

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/compose-spec/compose-go/v2/loader"
	"github.com/compose-spec/compose-go/v2/types"

	"seckill/internal/buildinfo"
	"seckill/internal/testkit/fail"
)

var everyProfile = []string{"locks", "zookeeper", "cluster", "sentinel", "galera", "vitess", "load", "lab", "observe"}

// load parses the file as docker compose does, with interpolation, schema and consistency checks.
func load(env map[string]string, profiles ...string) (*types.Project, error) {
	folder, err := filepath.Abs(root)
	if err != nil {
		return nil, err
	}
	return loader.LoadWithContext(context.Background(), types.ConfigDetails{
		WorkingDir: folder, ConfigFiles: []types.ConfigFile{{Filename: filepath.Join(folder, "docker-compose.yml")}}, Environment: env,
	}, loader.WithProfiles(profiles), func(o *loader.Options) { o.ResolvePaths = true })
}

func mustLoad(t *testing.T, env map[string]string, profiles ...string) *types.Project {
	t.Helper()
	project, err := load(env, profiles...)
	fail.NowIf(t, err, "load docker-compose.yml")
	return project
}

// whole is the project with every profile, which many tests read and none changes.
var whole = sync.OnceValues(func() (*types.Project, error) { return load(secrets(), everyProfile...) })

func everything(t *testing.T) *types.Project {
	t.Helper()
	project, err := whole()
	fail.NowIf(t, err, "load docker-compose.yml")
	return project
}

func setting(service types.ServiceConfig, name string) string {
	if v := service.Environment[name]; v != nil {
		return *v
	}
	return ""
}

// isStore reports whether a service keeps what is sold, or a lock.
func isStore(name string) bool {
	return regexp.MustCompile(`^(mysql|redis|sentinel|zookeeper|galera|vitess)`).MatchString(name)
}

func TestServices(t *testing.T) {
	of := map[string]string{
		"": "api balancer mysql redis", "locks": "redis-lock-1 redis-lock-2 redis-lock-3 redis-lock-4 redis-lock-5",
		"zookeeper": "zookeeper-1 zookeeper-2 zookeeper-3", "cluster": "redis-cluster-1 redis-cluster-2 redis-cluster-3",
		"sentinel": "redis-replica sentinel-1 sentinel-2 sentinel-3", "galera": "galera-1 galera-2 galera-3", "vitess": "vitess", "load": "k6", "lab": "lab",
		"observe": "grafana jaeger prometheus",
	}
	got := map[string][]string{}
	for name, service := range everything(t).Services {
		profile := strings.Join(service.Profiles, " ")
		got[profile] = append(got[profile], name)
	}
	for profile, names := range got {
		fail.Unequal(t, strings.Join(unique(names), " "), of[profile], "profile %q has", profile)
	}
	fail.Unequal(t, len(got), len(of), "profiles")
}

// What holds for every service: it is limited, its log is rotated, it writes to named volumes alone, and it is published
// on loopback. A server is also checked, restarted, and started after what it needs.
func TestEveryService(t *testing.T) {
	project := everything(t)
	published, usedBy, builder := map[string]string{}, map[string]string{}, map[string]string{}
	for name, s := range project.Services {
		if s.Deploy == nil || s.Deploy.Resources.Limits == nil || s.Deploy.Resources.Limits.MemoryBytes == 0 {
			t.Errorf("%s: no limit of memory", name)
		}
		if l := s.Logging; l == nil || l.Driver != "json-file" || l.Options["max-size"] == "" || l.Options["max-file"] == "" {
			t.Errorf("%s: its log is not rotated: %+v", name, l)
		}
		for _, port := range s.Ports {
			if other := published[port.Published]; port.HostIP != "127.0.0.1" || other != "" {
				t.Errorf("%s: port %s is published on %q, and by %q", name, port.Published, port.HostIP, other)
			}
			published[port.Published] = name
		}
		for _, v := range s.Volumes {
			named := v.Type == types.VolumeTypeVolume
			if named == v.ReadOnly || named && (v.Source == "" || usedBy[v.Source] != "") {
				t.Errorf("%s: %s is neither read-only nor a volume of its own: %+v", name, v.Target, v)
			}
			if named {
				usedBy[v.Source] = name
			}
		}
		if s.Build != nil {
			// Compose builds all images in parallel. A second one with the same name fails with "already exists".
			if other := builder[s.Image]; other != "" || len(s.Build.Args) > 0 {
				t.Errorf("%s builds %s, as %q does, with arguments that stay readable: %v", name, s.Image, other, s.Build.Args)
			}
			builder[s.Image] = name
		}
		if name == "k6" || name == "lab" { // runs once
			continue
		}
		if h := s.HealthCheck; h == nil || len(h.Test) < 2 || h.Interval == nil || h.Timeout == nil || h.Retries == nil || h.StartPeriod == nil || s.Restart != "unless-stopped" {
			t.Errorf("%s: restart is %q, and its health check is missing or incomplete: %+v", name, s.Restart, h)
		}
	}
	if want := map[string]string{"8080": "balancer", "9090": "prometheus", "3000": "grafana", "16686": "jaeger"}; !maps.Equal(published, want) {
		t.Errorf("published %v, want %v", published, want)
	}
	if declared, used := slices.Sorted(maps.Keys(project.Volumes)), slices.Sorted(maps.Keys(usedBy)); !slices.Equal(declared, used) {
		t.Errorf("volumes declared %v, used %v", declared, used)
	}
	for name := range project.Services {
		if isStore(name) && !slices.Contains(slices.Collect(maps.Values(usedBy)), name) {
			t.Errorf("%s keeps its data nowhere", name)
		}
	}
	if api := project.Services["api"]; api.Image != "seckill:"+buildinfo.Version || builder[api.Image] != "api" {
		t.Errorf("api runs %s, which is built by %q", api.Image, builder[api.Image])
	}
	for _, name := range []string{"api", "balancer"} {
		if s := project.Services[name]; !s.ReadOnly || !slices.Equal(s.CapDrop, []string{"ALL"}) {
			t.Errorf("%s: may write to its image, or has capabilities", name)
		}
	}
}

func TestDependsOnWhatIsHealthy(t *testing.T) {
	services := everything(t).Services
	for name, service := range services {
		for on, dependency := range service.DependsOn {
			// A node of Galera joins when another one serves, and all may have to start before one does.
			nodes := strings.HasPrefix(name, "galera") && strings.HasPrefix(on, "galera")
			if dependency.Condition != types.ServiceConditionHealthy && !nodes || services[on].HealthCheck == nil {
				t.Errorf("%s depends on %s with condition %s", name, on, dependency.Condition)
			}
			if base := len(services[on].Profiles) == 0; name == "api" && dependency.Required != base {
				t.Errorf("api: required is %v for %s, whose profiles are %v", dependency.Required, on, services[on].Profiles)
			}
		}
	}
	for name, on := range map[string]string{"api": "mysql redis", "balancer": "api", "k6": "balancer", "galera-2": "galera-1", "galera-3": "galera-2"} {
		for on := range strings.FieldsSeq(on) {
			if _, ok := services[name].DependsOn[on]; !ok {
				t.Errorf("%s is not started after %s, and stopped before it", name, on)
			}
		}
	}
}

// A store keeps what it has answered, and its files do not grow for ever.
func TestStoresAreDurableAndBounded(t *testing.T) {
	for name, service := range everything(t).Services {
		if name == "mysql" && !slices.ContainsFunc(service.Command, func(arg string) bool { return strings.HasPrefix(arg, "--binlog-expire-logs-seconds=") }) {
			t.Errorf("the binary log of %s stays for a month: %v", name, service.Command)
		}
		if !strings.HasPrefix(name, "redis") {
			continue
		}
		if at := slices.Index(service.Command, "--save"); at < 0 || service.Command[at+1] != "" || !slices.Contains(service.Command, "--appendonly") {
			t.Errorf("%s keeps no append-only file, or writes snapshots beside it: %v", name, service.Command)
		}
		// A rewrite of the append-only file forks, and may copy every page. 64 MiB are for the rest of the process.
		var data int64
		fail.If(t, fail.Of(fmt.Sscanf(service.Command[slices.Index(service.Command, "--maxmemory")+1], "%dmb", &data)), "%s: maxmemory", name)
		if limit := int64(service.Deploy.Resources.Limits.MemoryBytes); 2*data<<20+64<<20 > limit {
			t.Errorf("%s: %d MB of data do not survive a rewrite in %d bytes", name, data, limit)
		}
	}
}

// Containers share a network only if one of them has to reach the other. The debug listener, with metrics and profiles,
// is in the network instances alone.
func TestNetworks(t *testing.T) {
	project := everything(t)
	members := map[string][]string{}
	for name, service := range project.Services {
		if len(service.Networks) == 0 && service.NetworkMode != "none" {
			t.Errorf("%s is in the network of all", name)
		}
		for network := range service.Networks {
			if isStore(name) {
				name = "(stores)"
			}
			members[network] = append(members[network], name)
		}
	}
	for network, want := range map[string]string{
		"default": "balancer k6", "instances": "api balancer prometheus", "stores": "(stores) api", "traces": "api jaeger", "viewers": "grafana jaeger prometheus",
	} {
		fail.Unequal(t, strings.Join(unique(members[network]), " "), want, "network %s", network)
		if inside := network == "stores" || network == "traces"; project.Networks[network].Internal != inside {
			t.Errorf("network %s: internal is %v", network, !inside)
		}
		delete(members, network)
	}
	if len(members) > 0 {
		t.Errorf("more networks: %v", members)
	}
	env := secrets()
	env["SECKILL_SUBNET"] = "10.99.0.0/24"
	fail.Unequal(t, setting(mustLoad(t, env).Services["api"], "SECKILL_DEBUG_ADDR"), "10.99.0.0/24:9100", "in another network")
}

// The names and ports in the files of Prometheus and of the balancer are those of the services. Behind the balancer the
// instances' limits per address are off, so the balancer has them.
func TestEveryInstanceIsScrapedAndBalanced(t *testing.T) {
	project := everything(t)
	api, k6 := project.Services["api"], project.Services["k6"]
	_, port, _ := strings.Cut(setting(api, "SECKILL_ADDR"), ":")
	network, debug, _ := strings.Cut(setting(api, "SECKILL_DEBUG_ADDR"), ":")
	if pool := project.Networks["instances"].Ipam.Config; len(pool) != 1 || pool[0].Subnet != network {
		t.Errorf("the debug listeners are in %s, which is not the network instances: %+v", network, pool)
	}
	scraped := regexp.MustCompile(`names: \[api\]\s+type: A\s+port: ` + debug + `\n`)
	if content := project.Configs["prometheus"].Content; !scraped.MatchString(content) || !strings.Contains(content, "targets: [balancer:8404]") {
		t.Errorf("api:%s or the balancer is not scraped:\n%s", debug, content)
	}
	if !slices.ContainsFunc(project.Services["prometheus"].Command, func(arg string) bool { return strings.HasPrefix(arg, "--storage.tsdb.retention.size=") }) {
		t.Error("Prometheus keeps what does not fit a disk")
	}
	balancer := read(t, "deploy/haproxy/haproxy.cfg")
	fail.Without(t, balancer,
		"api:"+port+" resolvers docker", "check port "+debug+" ", "\n    timeout http-request 10s\n",
		"tcp-request connection track-sc0 src,ipmask(32,64)\n", "tcp-request connection reject if { sc0_conn_cur gt 1024 }\n",
	)
	for name, want := range map[string]string{"SECKILL_MAX_REQUESTS_PER_ADDRESS": "0", "SECKILL_MAX_CONNECTIONS_PER_ADDRESS": "0", "SECKILL_LAB_HOSTS": "balancer"} {
		fail.Unequal(t, setting(api, name), want, "%s", name)
	}
	script := read(t, "loadtest/seckill.js")
	for name := range k6.Environment {
		if name != "GOMEMLIMIT" && !regexp.MustCompile(`(?m)^//.*\b`+name+`\b`).MatchString(script) { // which Go's runtime reads
			t.Errorf("loadtest/seckill.js does not document %s", name)
		}
	}
}

// The profile vitess has the version that the tests have, and the vschema; the service recognizes the gate, and .env.example
// names its port.
func TestVitessProfile(t *testing.T) {
	vitess := everything(t).Services["vitess"]
	flags := map[string]string{}
	for _, arg := range vitess.Command[1:] {
		name, value, _ := strings.Cut(strings.TrimPrefix(arg, "--"), "=")
		flags[name] = value
	}
	version := regexp.MustCompile(`vitess\.io/vitess v0\.(\d+)\.(\d+)\s`).FindStringSubmatch(read(t, "tools/vitess/go.mod"))
	fail.Without(t, vitess.Image, ":v"+version[1]+".0."+version[2]+"-")
	fail.Without(t, flags["mysql-server-version"], "-Vitess")
	if len(vitess.Configs) != 1 || vitess.Configs[0].Target != flags["schema-dir"]+"/"+flags["keyspaces"]+"/vschema.json" ||
		!strings.HasSuffix(everything(t).Configs[vitess.Configs[0].Source].File, "/deploy/vitess/vschema.json") {
		t.Errorf("its vschema is %+v", vitess.Configs)
	}
	port, err := strconv.Atoi(flags["port"])
	fail.If(t, err)
	fail.Without(t, read(t, ".env.example"), fmt.Sprintf("\n#SECKILL_MYSQL_DSN=seckill@tcp(vitess:%d)/%s\n", port+3, flags["keyspaces"]))
}
