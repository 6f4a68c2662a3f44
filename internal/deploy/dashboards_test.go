package deploy_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"seckill/internal/testkit"
)

// dashboard is the part of a dashboard's JSON that the tests check.
type dashboard struct {
	UID, Title    string
	Tags          []string
	SchemaVersion int
	Links         []struct {
		Icon, Tooltip            *string
		IncludeVars, TargetBlank *bool
	}
	Templating struct {
		List []struct{ Name, Type string }
	}
	Panels []struct {
		ID          int
		Type, Title string
		GridPos     struct{ H, W, X, Y int }
		Datasource  struct{ UID string }
		Targets     []struct{ RefID, Expr string }
		Options     struct {
			Legend *struct {
				ShowLegend *bool
				Calcs      []string
			}
		}
	}
}

func dashboards(t *testing.T) map[string]dashboard {
	t.Helper()
	files, err := filepath.Glob(root + "/docs/grafana/dashboards/*.json")
	if err != nil || len(files) < 4 {
		t.Fatalf("%d dashboards: %v", len(files), err)
	}
	all := map[string]dashboard{}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var d dashboard
		if err := json.Unmarshal(data, &d); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		all[filepath.Base(file)] = d
	}
	return all
}

// The fields that the schema of Grafana 12 requires, and that are easily forgotten. The whole schema is in the package
// @grafana/schema of npm, as types of TypeScript: with it, tsc accepts these files.
func TestDashboardsHaveWhatGrafanaRequires(t *testing.T) {
	for name, d := range dashboards(t) {
		for _, link := range d.Links {
			if link.Icon == nil || link.Tooltip == nil || link.IncludeVars == nil || link.TargetBlank == nil {
				t.Errorf("%s: a link lacks icon, tooltip, includeVars or targetBlank", name)
			}
		}
		for _, p := range d.Panels {
			if legend := p.Options.Legend; legend != nil && (legend.ShowLegend == nil || legend.Calcs == nil) {
				t.Errorf("%s, %s: the legend lacks showLegend or calcs", name, p.Title)
			}
		}
	}
}

// Grafana shows each dashboard: numbers and names are unique, panels lie on the grid and do not overlap, every variable
// is one that there is, and each panel asks the data source that the reader chooses.
func TestDashboards(t *testing.T) {
	uids := map[string]string{}
	for name, d := range dashboards(t) {
		if other, taken := uids[d.UID]; taken || d.UID != "seckill-"+strings.TrimSuffix(name, ".json") {
			t.Errorf("%s has the uid %q; %q has it too: %v", name, d.UID, other, taken)
		}
		uids[d.UID] = name
		if !slices.Equal(d.Tags, []string{"seckill"}) || d.SchemaVersion < 39 || d.Title == "" {
			t.Errorf("%s: tags %v, schema version %d, title %q", name, d.Tags, d.SchemaVersion, d.Title)
		}
		known := []string{"__rate_interval", "__all"}
		for _, v := range d.Templating.List {
			known = append(known, v.Name)
		}
		for _, v := range regexp.MustCompile(`\$\{?(\w+)`).FindAllStringSubmatch(read(t, "docs/grafana/dashboards/"+name), -1) {
			if !slices.Contains(known, v[1]) {
				t.Errorf("%s: no variable $%s", name, v[1])
			}
		}
		ids, cells := map[int]bool{}, map[[2]int]string{}
		for _, p := range d.Panels {
			if ids[p.ID] {
				t.Errorf("%s: two panels are number %d", name, p.ID)
			}
			ids[p.ID] = true
			if p.GridPos.X+p.GridPos.W > 24 || p.GridPos.H == 0 || p.GridPos.W == 0 {
				t.Errorf("%s, %s: not on the grid: %+v", name, p.Title, p.GridPos)
			}
			for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
				for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
					if other, taken := cells[[2]int{x, y}]; taken {
						t.Fatalf("%s: %q covers %q", name, p.Title, other)
					}
					cells[[2]int{x, y}] = p.Title
				}
			}
			if p.Type != "row" && (len(p.Targets) == 0 || p.Datasource.UID != "${datasource}") {
				t.Errorf("%s, %s: shows nothing, or asks %q", name, p.Title, p.Datasource.UID)
			}
		}
	}
}

// The provisioned files are those that docker-compose.yml mounts.
func TestGrafanaIsProvisioned(t *testing.T) {
	project := mustLoad(t, secrets(), everyProfile...)
	grafana := project.Services["grafana"]
	sources := read(t, "docs/grafana/provisioning/datasources/seckill.yml")
	for name, port := range map[string]string{"prometheus": "9090", "jaeger": "16686"} {
		if !strings.Contains(sources, "url: http://"+name+":"+port+"\n") || !strings.Contains(sources, "type: "+name+"\n") {
			t.Errorf("%s is no data source", name)
		}
		if port := project.Services[name].Ports[0].Target; !strings.Contains(sources, fmt.Sprint(name, ":", port)) {
			t.Errorf("%s listens on %d", name, port)
		}
	}
	mounted := map[string]string{}
	for _, v := range grafana.Volumes {
		mounted[v.Target] = v.Source
	}
	path := regexp.MustCompile(`path: (\S+?)\}`).FindStringSubmatch(read(t, "docs/grafana/provisioning/dashboards/seckill.yml"))
	if path == nil || mounted[path[1]] != abs(t, "docs/grafana/dashboards") || mounted["/etc/grafana/provisioning"] != abs(t, "docs/grafana/provisioning") {
		t.Errorf("dashboards are looked for in %v; mounted are %v", path, mounted)
	}
	home := setting(grafana, "GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH")
	if _, err := os.Stat(filepath.Join(root, "docs/grafana/dashboards", filepath.Base(home))); err != nil || filepath.Dir(home) != path[1] {
		t.Errorf("the first page is %s: %v", home, err)
	}
	retention := slices.ContainsFunc(project.Services["prometheus"].Command, func(arg string) bool { return strings.HasPrefix(arg, "--storage.tsdb.retention.size=") })
	if !retention {
		t.Error("Prometheus keeps what does not fit a disk")
	}
	collector := read(t, "docs/jaeger/jaeger.yml")
	if endpoint := "jaeger:4318"; !strings.Contains(collector, "0.0.0.0:4318}") || !strings.Contains(read(t, ".env.example"), "OTEL_EXPORTER_OTLP_ENDPOINT=http://"+endpoint) {
		t.Errorf(".env.example does not name Jaeger's collector, %s", endpoint)
	}
}

// Every expression of every dashboard has a result in a real Prometheus that scrapes a service which has sold under
// both flows and asked for a payment.
func TestDashboardsShowARunningService(t *testing.T) {
	if testing.Short() {
		t.Skip("builds and runs the service, its servers and Prometheus")
	}
	prometheus, service := prometheusPath(t), testkit.Program(t, "api")
	mariadb, redis := testkit.NewMariaDB(t), testkit.NewRedis(t, "--appendonly", "yes")
	payment := []string{"SECKILL_PAYMENT_API_KEY=" + "stand-in-for-the-api-key-of-a-provider", "SECKILL_PAYMENT_WEBHOOK_SECRET=whsec_c3RhbmQtaW4tZm9yLXRoZS13ZWJob29rLXNlY3JldA=="}
	sandbox := testkit.Start(t, testkit.Command{Path: service, Args: []string{"payment-sandbox", "-listen", "127.0.0.1:0"}, Env: payment})
	provider := sandbox.WaitLine(t, `(http://127\.0\.0\.1:\d+)`)[1]
	api := startService(t, service, mariadb, redis, append(payment, "SECKILL_PAYMENT_URL="+provider)...)
	shown := startPrometheus(t, prometheus, strings.TrimPrefix(api.url, "http://"))

	paid := api.put(t, `{"title":"t","stock":100,"begin_at":"2020-01-01T00:00:00Z","end_at":"2120-01-01T00:00:00Z","price_cents":100,"pay_within_s":600,"policy":{}}`)
	for i, voucher := range []string{api.sell(t, `{"flow":"admission"}`), api.sell(t, `{}`), paid} {
		if status := api.order(t, voucher, i+1); status != 201 && status != 202 {
			t.Fatalf("an order: %d", status)
		}
	}
	for name, d := range dashboards(t) {
		asked := 0
		for _, p := range d.Panels {
			for _, target := range p.Targets {
				asked++
				expr := strings.NewReplacer("$job", ".*", "$__rate_interval", "30s").Replace(target.Expr)
				testkit.Until(t, fmt.Sprintf("%s, %s: %s has a result", name, p.Title, expr), func() bool { return shown.has(expr) })
			}
		}
		t.Logf("%s: %d expressions", name, asked)
	}
}
