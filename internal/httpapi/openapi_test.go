package httpapi_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"

	"seckill/api"
	"seckill/internal/httpapi"
	"seckill/internal/lock"
	"seckill/internal/testkit/fail"
)

// description is api/openapi.json with a matcher for each of its paths.
type description struct {
	*openapi3.T
	paths map[string]*regexp.Regexp
}

var loadDescription = sync.OnceValues(func() (*description, error) {
	doc, err := openapi3.NewLoader().LoadFromData(api.OpenAPI)
	if err != nil {
		return nil, err
	}
	d := &description{doc, make(map[string]*regexp.Regexp)}
	for path := range doc.Paths.Map() {
		// The key of a lock may contain slashes; no other parameter may.
		pattern := strings.ReplaceAll(regexp.QuoteMeta(path), `\{key\}`, `(?P<key>.*)`)
		pattern = regexp.MustCompile(`\\\{(\w+)\\\}`).ReplaceAllString(pattern, `(?P<$1>[^/]+)`)
		d.paths[path] = regexp.MustCompile("^" + pattern + "$")
	}
	return d, nil
})

func describedBy(t testing.TB) *description {
	t.Helper()
	d, err := loadDescription()
	fail.NowIf(t, err)
	return d
}

// find returns the operation that describes a request, and the parameters in its path; nil if there is none.
func (d *description) find(method, path string) (*routers.Route, map[string]string) {
	for template, pattern := range d.paths {
		match := pattern.FindStringSubmatch(path)
		operation := d.Paths.Value(template).GetOperation(method)
		if match == nil || operation == nil {
			continue
		}
		params := make(map[string]string)
		for i, name := range pattern.SubexpNames()[1:] {
			params[name] = match[i+1]
		}
		return &routers.Route{Spec: d.T, Path: template, PathItem: d.Paths.Value(template), Method: method, Operation: operation}, params
	}
	return nil, nil
}

// checkDescribed fails the test if a response is not as api/openapi.json says, or if the service accepted a request
// that is not as it says.
func checkDescribed(t testing.TB, req *http.Request, body string, rec *httptest.ResponseRecorder) {
	t.Helper()
	if req.Method == http.MethodHead { // the GET of the same path is described
		return
	}
	d := describedBy(t)
	where := fmt.Sprintf("%s %s: %d", req.Method, req.URL.Path, rec.Code)
	path := req.URL.EscapedPath()
	if !strings.Contains(strings.ToUpper(path), "%2F") { // a slash that is encoded separates nothing
		path = req.URL.Path
	}
	route, params := d.find(req.Method, path)
	if strings.Contains(rec.Body.String(), `"code":"not_found"`) { // the answer to addresses that are not described
		route = nil
	}
	if route == nil {
		added := regexp.MustCompile("^/(guarded|x|panic)") // routes that tests add
		if rec.Code != http.StatusNotFound && rec.Code != http.StatusMethodNotAllowed && !added.MatchString(req.URL.Path) {
			t.Errorf("%s is an operation that api/openapi.json does not have", where)
		}
		return
	}
	options := &openapi3filter.Options{AuthenticationFunc: openapi3filter.NoopAuthenticationFunc, IncludeResponseStatus: true, MultiError: true}
	input := &openapi3filter.RequestValidationInput{Request: req.Clone(t.Context()), PathParams: params, Route: route, Options: options}
	input.Request.Body = io.NopCloser(strings.NewReader(body))
	if body == "" {
		input.Request.Body = nil
	}
	if rec.Code < 300 {
		fail.If(t, openapi3filter.ValidateRequest(t.Context(), input), "%s: the request is not as api/openapi.json says", where)
	}
	if err := openapi3filter.ValidateResponse(t.Context(), &openapi3filter.ResponseValidationInput{
		RequestValidationInput: input, Status: rec.Code, Header: rec.Header(), Options: options,
		Body: io.NopCloser(bytes.NewReader(rec.Body.Bytes())),
	}); err != nil {
		t.Errorf("%s: the response is not as api/openapi.json says: %v\n%s", where, err, rec.Body)
	}
}

func TestOpenAPIIsValid(t *testing.T) {
	d := describedBy(t)
	if !d.IsOpenAPI31OrLater() {
		t.Errorf("it says openapi %q", d.OpenAPI)
	}
	fail.If(t, d.Validate(t.Context()))
}

// Every route of the table is described, and nothing else.
func TestOpenAPIHasEveryRoute(t *testing.T) {
	r := newFixture(t, lab)
	want := r.api.Operations()
	for _, path := range []string{"/livez", "/readyz", "/metrics"} { // of the debug handler
		want = append(want, "GET "+path)
	}
	for i, o := range want {
		want[i] = regexp.MustCompile(`[:*](\w+)`).ReplaceAllString(o, "{$1}")
	}
	var got []string
	for path, item := range describedBy(t).Paths.Map() {
		for method := range item.Operations() {
			got = append(got, method+" "+path)
		}
	}
	sameSet(t, "operations", got, want)
}

// Every row of the table of problems is described with its status, and nothing else.
func TestOpenAPIHasEveryProblem(t *testing.T) {
	want := slices.DeleteFunc(httpapi.Problems(), func(p string) bool { return strings.HasPrefix(p, "499") }) // never sent
	// The answers to what is not described at all.
	got := []string{"404 not_found", "405 method_not_allowed"}
	for _, resp := range describedBy(t).Components.Responses {
		schema := resp.Value.Content["application/problem+json"].Schema.Value
		status := schema.Properties["status"].Value.Const
		for _, code := range schema.Properties["code"].Value.Enum {
			got = append(got, fmt.Sprint(status, " ", code))
		}
	}
	sameSet(t, "problems", got, want)
	var codes []string
	for _, p := range want {
		_, code, _ := strings.Cut(p, " ")
		codes = append(codes, code)
	}
	sameSet(t, "codes", enum(t, "Problem", "code"), codes)
}

// The description lists each value that a policy accepts, and no other.
func TestOpenAPIHasEveryName(t *testing.T) {
	var points []string
	for _, p := range lock.Points() {
		points = append(points, string(p))
	}
	sameSet(t, "fault points", enum(t, "Fault", "point"), points)
	var locks []string
	for _, m := range lock.Catalogue() {
		locks = append(locks, m.Name)
	}
	for _, schema := range []string{"Policy", "PolicyInput"} {
		sameSet(t, "locks of "+schema, enum(t, schema, "lock"), locks)
	}
}

// Every example of a request is accepted.
func TestOpenAPIExamples(t *testing.T) {
	ran := 0
	for path, item := range describedBy(t).Paths.Map() {
		for method, operation := range item.Operations() {
			if operation.RequestBody == nil {
				continue
			}
			for name, example := range operation.RequestBody.Value.Content["application/json"].Examples {
				body, err := json.Marshal(example.Value.Value)
				fail.NowIf(t, err)
				r, store := newChanging(t, lab)
				status := http.StatusCreated
				if r.vouchers.Admission = true; method == http.MethodPatch {
					path, status = "/api/v1/vouchers/1", http.StatusOK
				} else {
					store.list = nil
				}
				t.Run(name, func(t *testing.T) { r.want(t, call{method, path, string(body), []string{"If-Match: *"}}, status) })
				ran++
			}
		}
	}
	if ran == 0 {
		t.Error("there are no examples")
	}
}

func TestOpenAPIIsServed(t *testing.T) {
	rec := newFixture(t).do(t, call{"GET", "/openapi.json", "", nil})
	if rec.Code != http.StatusOK || !bytes.Equal(rec.Body.Bytes(), api.OpenAPI) || rec.Header().Get("Content-Type") != "application/json" {
		t.Errorf("%d %q, %d bytes", rec.Code, rec.Header().Get("Content-Type"), rec.Body.Len())
	}
}

func enum(t *testing.T, schema, property string) (names []string) {
	t.Helper()
	for _, v := range describedBy(t).Components.Schemas[schema].Value.Properties[property].Value.Enum {
		names = append(names, fmt.Sprint(v))
	}
	return names
}

// sameSet compares without regard to order and repetition.
func sameSet(t *testing.T, what string, got, want []string) {
	t.Helper()
	for _, n := range slices.Concat(got, want) {
		fail.Unequal(t, slices.Contains(got, n), slices.Contains(want, n), "%s: %q, in api/openapi.json", what, n)
	}
}
