package deploy_test

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/types"
)

// Containers share a network only if one of them has to reach the other. The debug listener, with metrics and profiles,
// is in the network instances alone.
func TestNetworks(t *testing.T) {
	project := mustLoad(t, secrets(), everyProfile...)
	members := map[string][]string{}
	for name, service := range project.Services {
		if len(service.Networks) == 0 && service.NetworkMode != "none" {
			t.Errorf("%s is in the network of all", name)
		}
		for network := range service.Networks {
			if strings.HasPrefix(name, "redis") || strings.HasPrefix(name, "sentinel") || strings.HasPrefix(name, "zookeeper") || strings.HasPrefix(name, "galera") {
				name = "(stores)"
			}
			members[network] = append(members[network], name)
		}
	}
	for network, want := range map[string][]string{
		"default":   {"balancer", "k6"},
		"instances": {"api", "balancer", "prometheus"},
		"stores":    {"(stores)", "api", "mysql"},
		"traces":    {"api", "jaeger"},
		"viewers":   {"grafana", "jaeger", "prometheus"},
	} {
		if got := unique(members[network]); !slices.Equal(got, want) {
			t.Errorf("network %s: %v, want %v", network, got, want)
		}
		if inside := network == "stores" || network == "traces"; project.Networks[network].Internal != inside {
			t.Errorf("network %s: internal is %v", network, !inside)
		}
	}
	if len(members) != 5 {
		t.Errorf("networks %v", slices.Sorted(maps.Keys(members)))
	}
	env := secrets()
	env["SECKILL_SUBNET"] = "10.99.0.0/24"
	api := mustLoad(t, env).Services["api"]
	if got := setting(api, "SECKILL_DEBUG_ADDR"); got != "10.99.0.0/24:9100" {
		t.Errorf("in another network: %s", got)
	}
}

// An image is named with its whole version, so that a restart does not bring another one. The base of the final image
// has no versions. Digests cannot be looked up where the project is made.
func TestImagesArePinned(t *testing.T) {
	images := regexp.MustCompile(`(?m)^FROM (\S+)`).FindAllStringSubmatch(read(t, "Dockerfile"), -1)
	for _, service := range everyService(t) {
		if service.Build == nil && service.PullPolicy != types.PullPolicyNever {
			images = append(images, []string{"", service.Image})
		}
	}
	for _, image := range images {
		if image[1] == "gcr.io/distroless/static-debian12:nonroot" {
			continue
		}
		if !regexp.MustCompile(`^[a-z0-9/]+:v?\d+\.\d+\.\d+(-alpine)?(@sha256:[0-9a-f]{64})?$`).MatchString(image[1]) {
			t.Errorf("%s is not a version of three numbers", image[1])
		}
	}
}

// docs/operations.md says which versions are shipped beside those that are tested.
func TestVersionsAreTold(t *testing.T) {
	services, operations := everyService(t), read(t, "docs/operations.md")
	for row, service := range map[string]string{"MySQL": "mysql", "MariaDB": "galera-1", "Redis": "redis", "ZooKeeper": "zookeeper-1"} {
		_, version, _ := strings.Cut(services[service].Image, ":")
		version, _, _ = strings.Cut(version, "-")
		if !regexp.MustCompile(`(?m)^\| ` + row + ` \|[^|]+\|[^|]+\| ` + regexp.QuoteMeta(version) + ` \|`).MatchString(operations) {
			t.Errorf("docs/operations.md does not say that %s is %s", row, version)
		}
	}
}

// Docker makes a volume without a name for each folder that an image calls one and that nothing is mounted on, and keeps
// it for ever.
func TestNoVolumeIsAnonymous(t *testing.T) {
	of := map[string][]string{
		"redis": {"/data"}, "mysql": {"/var/lib/mysql"}, "mariadb": {"/var/lib/mysql"}, "zookeeper": {"/data", "/datalog", "/logs"},
		"prom/prometheus": {"/prometheus"}, "jaegertracing/jaeger": {"/tmp"},
	}
	for name, service := range everyService(t) {
		image, _, _ := strings.Cut(service.Image, ":")
		mounted := slices.Clone([]string(service.Tmpfs))
		for _, v := range service.Volumes {
			mounted = append(mounted, v.Target)
		}
		for _, folder := range of[image] {
			if !slices.Contains(mounted, folder) {
				t.Errorf("%s: %s is a volume of %s, and mounted are %v", name, folder, image, mounted)
			}
		}
	}
}

// make compose-test runs where no registry can be reached, so each image that the files name needs a stand-in.
func TestEveryImageHasAStandIn(t *testing.T) {
	images := regexp.MustCompile(`(?m)^FROM (\S+)`).FindAllStringSubmatch(read(t, "Dockerfile"), -1)
	for _, service := range everyService(t) {
		if service.Build == nil && service.PullPolicy != types.PullPolicyNever {
			images = append(images, []string{"", service.Image})
		}
	}
	engine := read(t, "scripts/compose-engine.sh")
	for _, image := range images {
		name, _, _ := strings.Cut(image[1], ":")
		if name == "grafana/grafana" && strings.Contains(engine, "grafana: !reset null") {
			continue // neither a package of Debian nor a Go module: that engine runs without it
		}
		if !regexp.MustCompile(`\b(layer|image_named) ` + regexp.QuoteMeta(name) + `[ )]`).MatchString(engine) {
			t.Errorf("scripts/compose-engine.sh makes no stand-in for %s", image[1])
		}
	}
}
