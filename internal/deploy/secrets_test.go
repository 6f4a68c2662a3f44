package deploy_test

import (
	"cmp"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Placeholder secrets, each different, so that a test can find where each one is used.
func secrets() map[string]string {
	return map[string]string{
		"MYSQL_PASSWORD":         "stand-in-for-the-mysql-password",
		"SECKILL_REDIS_PASSWORD": "stand-in-for-the-redis-password",
		"SECKILL_JWT_SECRET":     "stand-in-for-the-jwt-secret-of-32-bytes",
		"SECKILL_ADMIN_TOKEN":    "stand-in-for-the-admin-token",
	}
}

func TestRefusesToStartWithoutSecrets(t *testing.T) {
	for name := range secrets() {
		missing, empty := secrets(), secrets()
		delete(missing, name)
		empty[name] = ""
		for _, env := range []map[string]string{missing, empty} {
			if _, err := load(env); err == nil || !strings.Contains(err.Error(), "set "+name) {
				t.Errorf("got %v, want an error that says to set %s", err, name)
			}
		}
	}
}

// With files for secrets, no variable of a container has a secret, and each file is mounted where its variable says.
func TestSecretsFromFiles(t *testing.T) {
	folder := t.TempDir()
	env := map[string]string{"SECKILL_MYSQL_DSN": ""}
	for _, name := range []string{
		"MYSQL_PASSWORD_FILE", "SECKILL_REDIS_PASSWORD_FILE", "SECKILL_MYSQL_DSN_FILE", "SECKILL_JWT_SECRET_FILE", "SECKILL_ADMIN_TOKEN_FILE",
		"SECKILL_PAYMENT_API_KEY_FILE", "SECKILL_PAYMENT_WEBHOOK_SECRET_FILE",
	} {
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
	checked := 0
	for name, service := range everything(t).Services {
		for key, value := range service.Environment {
			switch {
			case !secretive.MatchString(key) || strings.HasSuffix(key, "_RANDOM_ROOT_PASSWORD"):
			case key == "SECKILL_PAYMENT_WEBHOOK_SECRET" && *value == "": // without a provider there is none
			case strings.HasSuffix(key, "_FILE"):
				if *value != "" {
					t.Errorf("%s: %s is %q, and the secret was given as a variable", name, key, *value)
				}
			default:
				if checked++; value == nil || !strings.Contains(*value, "stand-in-for-the-") {
					t.Errorf("%s: %s does not come from the caller", name, key)
				}
			}
		}
	}
	if checked == 0 {
		t.Error("no secret found at all")
	}
}

// Each setting of the service can be given to the containers, and is explained. Lab mode is off unless it is asked for.
func TestSettings(t *testing.T) {
	// These settings have no place in the containers: a name would be that of all instances, and some are for
	// experiments.
	left := []string{"SECKILL_INSTANCE", "SECKILL_LOCK_WATCHDOG", "SECKILL_IDS", "SECKILL_LAB_TRACE", "SECKILL_LAB_NAME"}
	// The servers here have no certificates, and the sentinels no password of their own. Files need a mount too.
	left = append(left, "SECKILL_REDIS_SENTINEL_USERNAME", "SECKILL_REDIS_SENTINEL_PASSWORD", "SECKILL_REDIS_SENTINEL_PASSWORD_FILE")
	for _, store := range []string{"REDIS", "MYSQL"} {
		for _, of := range []string{"", "_CA", "_SERVER_NAME", "_CERT", "_KEY"} {
			left = append(left, "SECKILL_"+store+"_TLS"+of)
		}
	}
	api := everything(t).Services["api"]
	told := slices.Collect(maps.Keys(api.Environment))
	if got, want := slices.Sorted(slices.Values(append(told, left...))), settings(t); !slices.Equal(got, want) {
		t.Errorf("told or left out are %v, the service knows %v", got, want)
	}
	if got, want := setting(api, "SECKILL_MYSQL_DSN"), "seckill:"+secrets()["MYSQL_PASSWORD"]+"@tcp(mysql:3306)/seckill"; got != want {
		t.Errorf("DSN is %q, want %q", got, want)
	}
	pages := read(t, "docs/configure.md") + read(t, "docs/outages-and-limits.md")
	for _, name := range settings(t) {
		if !regexp.MustCompile(`\b` + name + `\b`).MatchString(pages) {
			t.Errorf("neither docs/configure.md nor docs/outages-and-limits.md explains %s", name)
		}
	}
	asked := secrets()
	asked["SECKILL_LAB"], asked["SECKILL_LAB_ALLOW_REMOTE"] = "1", "1"
	on := mustLoad(t, asked).Services["api"]
	for _, name := range []string{"SECKILL_LAB", "SECKILL_LAB_ALLOW_REMOTE"} {
		if setting(api, name) != "0" || setting(on, name) != "1" {
			t.Errorf("%s is %q, and %q where it is asked for", name, setting(api, name), setting(on, name))
		}
	}
}

// The example names every variable that docker-compose.yml takes from the caller, and no other. It names every secret,
// and contains none.
func TestEnvExample(t *testing.T) {
	example, compose := read(t, ".env.example"), read(t, "docker-compose.yml")
	var listed, needed []string
	for _, line := range regexp.MustCompile(`(?m)^(#?)([A-Z][A-Z0-9_]*)=(.*)$`).FindAllStringSubmatch(example, -1) {
		name := line[2]
		listed = append(listed, name)
		if !regexp.MustCompile(`\$\{` + name + `[:-]`).MatchString(compose) {
			t.Errorf("%s is not read by docker-compose.yml", name)
		}
		if line[1] == "" {
			needed = append(needed, name)
			if line[3] != "" {
				t.Errorf("%s has a value", name)
			}
		}
	}
	if got, want := unique(needed), slices.Sorted(maps.Keys(secrets())); !slices.Equal(got, want) {
		t.Errorf("asks for %v, want %v", got, want)
	}
	taken := regexp.MustCompile(`\$\{((?:SECKILL|OTEL|MYSQL|API|GRAFANA|JAEGER|PROMETHEUS)_[A-Z0-9_]+)`).FindAllStringSubmatch(compose, -1)
	for _, name := range taken {
		if !slices.Contains(listed, name[1]) {
			t.Errorf(".env.example does not list %s", name[1])
		}
	}
	if len(taken) < 30 {
		t.Errorf("only %d variables found", len(taken))
	}
}
