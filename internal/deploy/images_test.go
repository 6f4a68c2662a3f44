package deploy_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/types"

	"seckill/internal/testkit/fail"
)

// An image is named with its whole version, so that a restart does not bring another one; the base of the final image has
// no versions, and digests cannot be looked up where the project is made. docs/deploy.md says which versions are
// shipped beside those that are tested.
func TestImages(t *testing.T) {
	var images []string
	for _, from := range regexp.MustCompile(`(?m)^FROM (\S+)`).FindAllStringSubmatch(read(t, "Dockerfile"), -1) {
		images = append(images, from[1])
	}
	services := everything(t).Services
	for _, service := range services {
		if service.Build == nil && service.PullPolicy != types.PullPolicyNever {
			images = append(images, service.Image)
		}
	}
	for _, image := range unique(images) {
		_, version, _ := strings.Cut(image, ":")
		if image != "gcr.io/distroless/static-debian12:nonroot" && !regexp.MustCompile(`^v?\d+\.\d+\.\d+(-alpine|-mysql84)?(@sha256:[0-9a-f]{64})?$`).MatchString(version) {
			t.Errorf("%s is not a version of three numbers", image)
		}
	}
	operations := read(t, "docs/deploy.md")
	for row, service := range map[string]string{"MySQL": "mysql", "MariaDB": "galera-1", "Redis": "redis", "ZooKeeper": "zookeeper-1"} {
		_, version, _ := strings.Cut(services[service].Image, ":")
		version, _, _ = strings.Cut(version, "-")
		if !regexp.MustCompile(`(?m)^\| ` + row + ` \|[^|]+\|[^|]+\| ` + regexp.QuoteMeta(version) + ` \|`).MatchString(operations) {
			t.Errorf("docs/deploy.md does not say that %s is %s", row, version)
		}
	}
}

// Docker makes a volume without a name for each folder that an image calls one and that nothing is mounted on, and keeps
// it for ever.
func TestNoVolumeIsAnonymous(t *testing.T) {
	of := map[string]string{
		"redis": "/data", "mysql": "/var/lib/mysql", "mariadb": "/var/lib/mysql", "vitess/vttestserver": "/vt/vtdataroot", "zookeeper": "/data /datalog /logs",
		"prom/prometheus": "/prometheus", "jaegertracing/jaeger": "/tmp",
	}
	for name, service := range everything(t).Services {
		image, _, _ := strings.Cut(service.Image, ":")
		mounted := slices.Clone([]string(service.Tmpfs))
		for _, v := range service.Volumes {
			mounted = append(mounted, v.Target)
		}
		for folder := range strings.FieldsSeq(of[image]) {
			if !slices.Contains(mounted, folder) {
				t.Errorf("%s: %s is a volume of %s, and mounted are %v", name, folder, image, mounted)
			}
		}
	}
}

func TestDockerfile(t *testing.T) {
	text := read(t, "Dockerfile")
	stages := regexp.MustCompile(`(?m)^FROM `).Split(text, -1)[1:]
	if len(stages) != 2 {
		t.Fatalf("%d stages, want one to build and one to run", len(stages))
	}
	build, final := stages[0], stages[1]
	version := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindStringSubmatch(read(t, "go.mod"))
	if version == nil || !strings.HasPrefix(build, "golang:"+version[1]+".") {
		t.Errorf("the build stage is not of the Go that go.mod names, %v", version)
	}
	fail.Without(t, build, "CGO_ENABLED=0", "-trimpath", "buildinfo.commit=${COMMIT}")
	fail.Without(t, final, "\nUSER nonroot", "\nHEALTHCHECK ", `"healthcheck"]`, "\nENV SECKILL_ADDR=0.0.0.0:8080\nEXPOSE 8080\n")
	if strings.Contains(final, "\nRUN ") {
		t.Error("the final stage runs a command, and has no shell")
	}
	fail.Unequal(t, regexp.MustCompile(`(?mi)^(ARG|ENV)\b.*(SECRET|TOKEN|PASSWORD|DSN)`).FindString(text), "", "an image keeps what it is told for ever")
	// The build context must contain neither secrets nor the git history.
	for _, want := range []string{".git", ".env", ".env.*", "secrets"} {
		if !slices.Contains(strings.Split(read(t, ".dockerignore"), "\n"), want) {
			t.Errorf("%s would be sent to the builder", want)
		}
	}
}
