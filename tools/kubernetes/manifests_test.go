package kubernetes_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"
)

const root = "../.."

// manifests are the objects of docs/kubernetes/seckill.yaml.
type manifests struct {
	config     corev1.ConfigMap
	service    corev1.Service
	deployment appsv1.Deployment
	scaler     autoscalingv2.HorizontalPodAutoscaler
	budget     policyv1.PodDisruptionBudget
	network    networkingv1.NetworkPolicy
}

// load decodes each document into the type of Kubernetes that its kind names, and refuses a field that the type does
// not have or writes otherwise.
func load(t *testing.T) *manifests {
	t.Helper()
	m := &manifests{}
	types := map[string]any{
		"v1 ConfigMap": &m.config, "v1 Service": &m.service, "apps/v1 Deployment": &m.deployment,
		"autoscaling/v2 HorizontalPodAutoscaler": &m.scaler, "policy/v1 PodDisruptionBudget": &m.budget,
		"networking.k8s.io/v1 NetworkPolicy": &m.network,
	}
	data, err := os.ReadFile(filepath.Join(root, "docs/kubernetes/seckill.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for document := range bytes.SplitSeq(data, []byte("\n---\n")) {
		var meta struct{ APIVersion, Kind string }
		if err := yaml.Unmarshal(document, &meta); err != nil {
			t.Fatal(err)
		}
		name := meta.APIVersion + " " + meta.Kind
		into, ok := types[name]
		if !ok {
			t.Fatalf("%q is twice, or no kind that the test knows", name)
		}
		delete(types, name)
		if err := yaml.UnmarshalStrict(document, into); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		// This decoder ignores the case of field names; a server does not.
		written, err := json.Marshal(into)
		if err != nil {
			t.Fatal(err)
		}
		var want, got any
		if err := yaml.Unmarshal(document, &want); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(written, &got); err != nil {
			t.Fatal(err)
		}
		for _, lost := range missing(meta.Kind, want, got) {
			t.Errorf("%s: %s is lost", name, lost)
		}
	}
	for name := range types {
		t.Errorf("there is no %s", name)
	}
	return m
}

// missing returns the paths in want whose values got does not have.
func missing(path string, want, got any) (lost []string) {
	switch want := want.(type) {
	case map[string]any:
		has, _ := got.(map[string]any)
		for key, value := range want {
			lost = append(lost, missing(path+"."+key, value, has[key])...)
		}
	case []any:
		has, _ := got.([]any)
		for i, value := range want {
			var other any
			if i < len(has) {
				other = has[i]
			}
			lost = append(lost, missing(fmt.Sprintf("%s[%d]", path, i), value, other)...)
		}
	default:
		if !reflect.DeepEqual(want, got) && fmt.Sprint(want) != fmt.Sprint(got) {
			lost = append(lost, fmt.Sprintf("%s: %v (read as %v)", path, want, got))
		}
	}
	return lost
}

// The objects belong together: each selects the pods that the Deployment makes, and names ports that they have.
func TestManifestsBelongTogether(t *testing.T) {
	m := load(t)
	pod := m.deployment.Spec.Template
	for what, selector := range map[string]map[string]string{
		"the Deployment": m.deployment.Spec.Selector.MatchLabels, "the Service": m.service.Spec.Selector,
		"the PodDisruptionBudget": m.budget.Spec.Selector.MatchLabels, "the NetworkPolicy": m.network.Spec.PodSelector.MatchLabels,
	} {
		if len(selector) == 0 || !labels.SelectorFromSet(selector).Matches(labels.Set(pod.Labels)) {
			t.Errorf("%s selects %v, and pods have %v", what, selector, pod.Labels)
		}
	}
	if ref := m.scaler.Spec.ScaleTargetRef; ref.Kind != m.deployment.Kind || ref.Name != m.deployment.Name || m.deployment.Spec.Replicas != nil {
		t.Errorf("the autoscaler scales %v, and the Deployment has a number of its own: %v", ref, m.deployment.Spec.Replicas)
	}
	if lowest := m.scaler.Spec.MinReplicas; lowest == nil || *lowest < 2 || m.budget.Spec.MaxUnavailable.IntValue() >= int(*lowest) {
		t.Errorf("at least %v instances, of which %v may be away", lowest, m.budget.Spec.MaxUnavailable)
	}
	container := pod.Spec.Containers[0]
	ports := map[string]string{}
	for _, p := range container.Ports {
		ports[p.Name] = fmt.Sprint(p.ContainerPort)
	}
	for setting, port := range map[string]string{"SECKILL_ADDR": "http", "SECKILL_DEBUG_ADDR": "debug"} {
		if address := m.config.Data[setting]; !strings.HasSuffix(address, ":"+ports[port]) || ports[port] == "" {
			t.Errorf("%s is %s, and the port %s is %s", setting, address, port, ports[port])
		}
	}
	if m.service.Spec.Ports[0].TargetPort != intstr.FromString("http") || len(m.service.Spec.Ports) != 1 {
		t.Errorf("the Service has the ports %v", m.service.Spec.Ports)
	}
	if pod.Annotations["prometheus.io/port"] != ports["debug"] {
		t.Errorf("Prometheus is told to ask port %s", pod.Annotations["prometheus.io/port"])
	}
	for _, rule := range m.network.Spec.Ingress {
		if debug := rule.Ports[0].Port.String() == "debug"; debug != (len(rule.From) > 0) {
			t.Errorf("the NetworkPolicy lets %v reach port %s", rule.From, rule.Ports[0].Port)
		}
	}
}

// An instance is asked what it answers, has time to stop, and has no rights.
func TestPod(t *testing.T) {
	m := load(t)
	pod := m.deployment.Spec.Template.Spec
	container := pod.Containers[0]
	for path, probes := range map[string][]*corev1.Probe{"/readyz": {container.ReadinessProbe}, "/livez": {container.LivenessProbe, container.StartupProbe}} {
		for _, probe := range probes {
			if probe == nil || probe.HTTPGet == nil || probe.HTTPGet.Path != path || probe.HTTPGet.Port != intstr.FromString("debug") {
				t.Errorf("no probe asks %s of the debug listener: %+v", path, probe)
			}
		}
	}
	const longestStop = 40 // docs/operations.md
	if !strings.Contains(read(t, "docs/operations.md"), fmt.Sprintf("longer than the sum: %d s", longestStop)) {
		t.Error("docs/operations.md has another sum")
	}
	if grace := pod.TerminationGracePeriodSeconds; grace == nil || *grace <= longestStop+container.Lifecycle.PreStop.Sleep.Seconds {
		t.Errorf("the pod has %v to stop", grace)
	}
	if update := m.deployment.Spec.Strategy.RollingUpdate; update.MaxUnavailable.IntValue() != 0 || update.MaxSurge.IntValue() < 1 {
		t.Errorf("a rolling update stops instances first: %+v", update)
	}
	rights, all := container.SecurityContext, pod.SecurityContext
	if !*rights.ReadOnlyRootFilesystem || *rights.AllowPrivilegeEscalation || !slices.Equal(rights.Capabilities.Drop, []corev1.Capability{"ALL"}) ||
		!*all.RunAsNonRoot || *all.RunAsUser != 65532 || all.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault || *pod.AutomountServiceAccountToken {
		t.Error("the container has rights that it does not need")
	}
	if container.Resources.Limits.Memory().IsZero() || container.Resources.Requests.Cpu().IsZero() {
		t.Errorf("resources %+v", container.Resources)
	}
	metric := m.scaler.Spec.Metrics[0].Pods.Metric.Name
	if !strings.Contains(read(t, "docs/grafana/dashboards/orders.json"), metric) {
		t.Errorf("the autoscaler asks for %s, which no dashboard shows", metric)
	}
}

// Every setting is one of the service, every secret is a file that is mounted, and the commands of docs/operations.md
// make the files.
func TestSettingsAndSecrets(t *testing.T) {
	m := load(t)
	help := exec.CommandContext(t.Context(), "go", "run", "./cmd/api", "-help")
	help.Dir = root
	known, err := help.Output()
	if err != nil {
		t.Fatal(err)
	}
	container := m.deployment.Spec.Template.Spec.Containers[0]
	names := []string{container.Env[0].Name}
	folder, operations := container.VolumeMounts[0].MountPath, read(t, "docs/operations.md")
	for name, value := range m.config.Data {
		names = append(names, name)
		if strings.HasSuffix(name, "_FILE") {
			file, below := strings.CutPrefix(value, folder+"/")
			if !below || !strings.Contains(operations, "--from-file="+file+"=") && !strings.Contains(operations, "--from-file=secrets/"+file) {
				t.Errorf("%s is %s, which nothing makes", name, value)
			}
		} else if regexp.MustCompile(`PASSWORD|SECRET|TOKEN|DSN`).MatchString(name) {
			t.Errorf("%s is a secret in a ConfigMap", name)
		}
	}
	for _, name := range names {
		if !regexp.MustCompile(`(?m)\b` + name + `\b`).Match(known) {
			t.Errorf("the service has no setting %s", name)
		}
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
