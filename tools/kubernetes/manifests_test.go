package kubernetes_test

import (
	"fmt"
	"os"
	"path/filepath"
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
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/intstr"
)

const root = "../.."

// manifests are the objects of deploy/kubernetes/seckill.yaml.
type manifests struct {
	config     corev1.ConfigMap
	service    corev1.Service
	deployment appsv1.Deployment
	scaler     autoscalingv2.HorizontalPodAutoscaler
	budget     policyv1.PodDisruptionBudget
	network    networkingv1.NetworkPolicy
}

// load decodes each document as the API server does with strict validation: a field that its kind does not have, or
// writes otherwise, is an error.
func load(t *testing.T) *manifests {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		appsv1.AddToScheme, autoscalingv2.AddToScheme, corev1.AddToScheme, networkingv1.AddToScheme, policyv1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	decoder := serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer()
	m, found := &manifests{}, map[string]bool{}
	for document := range strings.SplitSeq(read(t, "deploy/kubernetes/seckill.yaml"), "\n---\n") {
		object, kind, err := decoder.Decode([]byte(document), nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		if found[kind.Kind] {
			t.Errorf("%s is there twice", kind.Kind)
		}
		found[kind.Kind] = true
		switch o := object.(type) {
		case *corev1.ConfigMap:
			m.config = *o
		case *corev1.Service:
			m.service = *o
		case *appsv1.Deployment:
			m.deployment = *o
		case *autoscalingv2.HorizontalPodAutoscaler:
			m.scaler = *o
		case *policyv1.PodDisruptionBudget:
			m.budget = *o
		case *networkingv1.NetworkPolicy:
			m.network = *o
		default:
			t.Errorf("the test does not know what a %s is for", kind.Kind)
		}
	}
	if len(found) != 6 {
		t.Fatalf("there are %v", found)
	}
	return m
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
	const longestStop = 40 // docs/deploy.md
	if !strings.Contains(read(t, "docs/deploy.md"), fmt.Sprintf("longer than the sum: %d s", longestStop)) {
		t.Error("docs/deploy.md has another sum")
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
	if !strings.Contains(read(t, "deploy/grafana/dashboards/orders.json"), metric) {
		t.Errorf("the autoscaler asks for %s, which no dashboard shows", metric)
	}
}

// Every setting is one of the service, every secret is a file that is mounted, and the commands of docs/deploy.md make
// the files.
func TestSettingsAndSecrets(t *testing.T) {
	m := load(t)
	container := m.deployment.Spec.Template.Spec.Containers[0]
	names := []string{container.Env[0].Name}
	folder, operations := container.VolumeMounts[0].MountPath, read(t, "docs/deploy.md")+read(t, "docs/configure.md")+read(t, "docs/outages-and-limits.md")
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
		if !regexp.MustCompile(`\b` + name + `\b`).MatchString(operations) { // whose settings internal/deploy compares with the service's
			t.Errorf("neither docs/configure.md nor docs/outages-and-limits.md has the setting %s", name)
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
