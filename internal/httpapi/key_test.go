package httpapi_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"seckill/internal/httpapi"
	"seckill/internal/lock"
	"seckill/internal/testkit/fail"
)

// keyRoute adds POST /keyed/:id/:name, guarded by key, and returns the locker of its guard.
func keyRoute(t testing.TB, r *fixture, key string) *fakeLocker {
	t.Helper()
	fail.NowIf(t, r.api.AddRoute("POST", "/keyed/:id/:name", true, nothing, httpapi.Guard{Key: key, Lock: "reentrant"}))
	return r.locks["reentrant"].(*fakeLocker)
}

func TestKey(t *testing.T) {
	const path, user = "/keyed/7/Ann", "X-User-ID: 42"
	for _, c := range []struct {
		name, key, path, body string
		headers               []string
		want                  string // the key; or, beginning with "!", what the refusal says
	}{
		{"literal", "report", path, "", nil, "report"},
		{"path", "audit:{path.id}", path, "", nil, "audit:7"},
		{"user and path", "order:{user}:{path.id}", path, "", nil, "order:42:7"},
		{"an expression", `o:{lower(path.name)}:{path.id in ["7", "8"]}`, path, "", nil, "o:ann:true"},
		{"braces in an expression", `o:{{"7": "}{"}[path.id]}:{'{'}`, path, "", nil, "o:%7D%7B:%7B"},
		{"a quoted quote", "o:{\"\\\"}\" + path.id + `\\`}", path, "", nil, "o:%22%7D7%5C"},
		{"query", "o:{query.page}", path + "?page=3&page=4", "", nil, "o:3"},
		{"query, default", "o:{query.page ?? 1}", path, "", nil, "o:1"},
		{"query, empty", "o:{query.page}", path + "?page=", "", nil, "o:"},
		{"query, missing", "o:{query.page}", path, "", nil, "!{query.page}, which is missing"},
		{"query, unreadable", "o:{query.page}", path + "?page=%zz", "", nil, "!query"},
		{"query, unreadable and not asked", "o:{user}", path + "?page=%zz", "", nil, "o:42"},
		{"nothing at all", "{query.page}", path + "?page=", "", nil, "!0 bytes long"},
		{"header", `o:{header("x-tenant")}`, path, "", []string{"X-Tenant: Acme Ltd", "X-Tenant: b"}, "o:Acme+Ltd"},
		{"header, missing", `o:{header("x-tenant")}`, path, "", nil, `!{header("x-tenant")}, which is missing`},
		{"header, empty", `o:{header("x-tenant")}`, path, "", []string{"X-Tenant: "}, "o:"},

		{"json string", "o:{json.sku}", path, `{"sku": "a/b"}`, nil, "o:a%2Fb"},
		{"json whole number", "o:{json.n}", path, `{"n": 9007199254740993}`, nil, "o:9007199254740993"},
		{"json number past 2^63", "o:{json.n}", path, `{"n": -92233720368547758089}`, nil, "o:-92233720368547758089"},
		{"json number, reckoned with", "o:{json.n + 1}", path, `{"n": 9007199254740992}`, nil, "o:9007199254740993"},
		{"json number, inside", "o:{json.a[0].n}", path, `{"a": [{"n": 9007199254740993}]}`, nil, "o:9007199254740993"},
		{"json minus zero", "o:{json.n}", path, `{"n": -0}`, nil, "o:0"},
		{"json boolean", "o:{json.b}", path, `{"b": false}`, nil, "o:false"},
		{"json by $env", `o:{$env["json"].b}`, path, `{"b": false}`, nil, "o:false"},
		{"json fraction", "o:{json.n}", path, `{"n": 1.5}`, nil, "!{json.n}, which is a number with a fraction or an exponent"},
		{"json exponent", "o:{json.n}", path, `{"n": 1e2}`, nil, "!{json.n}, which is a number with a fraction or an exponent"},
		{"json quotient", "o:{int(json.n / 2)}", path, `{"n": 3}`, nil, "o:1"},
		{"a fraction", "o:{query.n ?? 0.5}", path, "", nil, "!{query.n ?? 0.5}, which is a number with a fraction"},
		{"json missing", "o:{json.n}", path, `{}`, nil, "!{json.n}, which is missing"},
		{"json null", "o:{json.n}", path, `{"n": null}`, nil, "!{json.n}, which is missing"},
		{"json object", "o:{json.n}", path, `{"n": {}}`, nil, "!{json.n}, which is an object"},
		{"json array", "o:{json.n}", path, `{"n": []}`, nil, "!{json.n}, which is an array"},
		{"json, nothing to look into", "o:{json.a.b}", path, `{}`, nil, "!{json.a.b}, which this request has no value for"},
		{"json, a sum of apples and pears", "o:{json.a + 1}", path, `{"a": "x"}`, nil, "!{json.a + 1}, which this request has no value for"},
		{"json twice", "o:{json.n}", path, `{"n": 1, "n": 2}`, nil, "!n is given twice"},
		{"json cut off", "o:{json.n}", path, `{"n": 1`, nil, "!not valid JSON"},
		{"json array for a body", "o:{json.n}", path, `[]`, nil, "!the body is an array"},
		{"json without a body", "o:{json.n}", path, "", nil, "!the body is empty"},
		{"json as a form", "o:{json.n}", path, "n=1", []string{"Content-Type: application/x-www-form-urlencoded"}, "!Content-Type"},
		{"json not asked", "o:{user}", path, `{"n"`, nil, "o:42"},

		{"separators", "o:{path.id}:{path.name}", "/keyed/a:b/%7Bc%7D", "", nil, "o:a%3Ab:%7Bc%7D"},
		{"control characters", "o:{path.name}", "/keyed/7/a%00%0Ab", "", nil, "o:a%00%0Ab"},
		{"not UTF-8", "o:{path.name}", "/keyed/7/%ff", "", nil, "o:%FF"},
		{"as long as can be", "o:{path.name}", "/keyed/7/" + strings.Repeat("x", 254), "", nil, "o:" + strings.Repeat("x", 254)},
		{"too long", "o:{path.name}", "/keyed/7/" + strings.Repeat("x", 255), "", nil, "!257 bytes"},
		{"too long once escaped", "o:{path.name}", "/keyed/7/" + strings.Repeat(":", 100), "", nil, "!302 bytes"},
		{"far too long", "o:{path.name}", "/keyed/7/" + strings.Repeat("x", 5000), "", nil, "!{path.name}, which is 5000 bytes"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newFixture(t, lab)
			l := keyRoute(t, r, c.key)
			rec := r.do(t, call{"POST", c.path, c.body, append(c.headers, user)})
			keys := l.keys
			if says, refused := strings.CutPrefix(c.want, "!"); refused {
				if p := wantProblem(t, rec, http.StatusBadRequest, "invalid_request"); !strings.Contains(p.Detail, says) {
					t.Errorf("detail %q; want it to say %q", p.Detail, says)
				}
				if len(keys) > 0 {
					t.Errorf("locked %q", keys)
				}
				return
			}
			if rec.Code != http.StatusOK || len(keys) != 1 || keys[0] != c.want {
				t.Errorf("%d %s; locked %q, want %q", rec.Code, rec.Body, keys, c.want)
			}
		})
	}
}

// An invalid declaration prevents the start of the service. The error names the position.
func TestKeyDoesNotCompile(t *testing.T) {
	for _, c := range []struct {
		method, key string
		forUser     bool
		want        []string
	}{
		{"POST", "o:{json.id +}", true, []string{"POST /wrong/:id", `key "o:{json.id +}"`, "column 12", "unexpected token", "{json.id +}"}},
		{"POST", "键:{colour}", true, []string{"column 4", "unknown name colour"}},
		{"POST", "o:{path.name}", true, []string{"column 9", "unknown field name"}},
		{"POST", `o:{path["name"]}`, true, []string{"unknown field name"}},
		{"POST", "o:{user}", false, []string{"unknown name user"}},
		{"GET", "o:{json.id}", true, []string{"GET /wrong/:id", "unknown name json"}},
		{"POST", "o:{header(5)}", true, []string{"header"}},
		{"POST", "o:{now().Unix()}", true, []string{"unknown name now"}},
		{"POST", `o:{join(keys(query), ",")}`, true, []string{"unknown name keys"}},
		{"POST", "o:{query}", true, []string{"column 4", "a key cannot contain an object"}},
		{"POST", "o:{[path.id]}", true, []string{"an array"}},
		{"POST", "o:{json.n / 2}", true, []string{"column 4", "a key cannot contain a number with a fraction or an exponent"}},
		{"POST", "o:{header}", true, []string{"a function"}},
		{"POST", "o:{}", true, []string{"column 4", "unexpected token"}},
		{"POST", "o:{path.id", true, []string{"column 3", "not closed"}},
		{"POST", "o:path.id}", true, []string{"column 10", "no opening brace"}},
		{"POST", `o:{"}`, true, []string{"not closed"}},
		{"POST", "{user}{path.id}", true, []string{"column 8", "no character separates", "{path.id}"}},
		{"POST", "{user}-x{path.id}", true, []string{"no character separates"}},
		{"POST", "o\n:{user}", true, []string{"control"}},
		{"POST", "\xff:{user}", true, []string{"UTF-8"}},
		{"POST", "", true, []string{"1 to 256"}},
		{"POST", strings.Repeat("x", 257), true, []string{"1 to 256"}},
	} {
		t.Run(c.key, func(t *testing.T) {
			r := newFixture(t, lab)
			err := r.api.AddRoute(c.method, "/wrong/:id", c.forUser, nothing, httpapi.Guard{Key: c.key, Lock: "reentrant"})
			if err == nil {
				t.Fatal("no error")
			}
			for _, want := range append(c.want, "httpapi: guard of ") {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q; want it to say %q", err, want)
				}
			}
		})
	}
}

// send makes a request of parts that need not be valid in a URL or a header.
func (r *fixture) send(t testing.TB, path, query, tenant, body string) *httptest.ResponseRecorder {
	t.Helper()
	req := httptest.NewRequestWithContext(t.Context(), "POST", "/", strings.NewReader(body))
	req.URL.Path, req.URL.RawQuery = path, query
	req.Header = http.Header{"X-Tenant": {tenant}, "X-User-Id": {"42"}, "Content-Type": {"application/json"}}
	rec := httptest.NewRecorder()
	r.handler.ServeHTTP(rec, req)
	return rec
}

// FuzzKey checks that any request is either refused as invalid, and locks nothing, or locks a key that every
// mechanism accepts.
func FuzzKey(f *testing.F) {
	f.Add("7", "page=1", "acme", `{"n": 1}`)
	f.Add("{", "page=%7D", "\x00", `{"n": 9007199254740993, "a": ["\ud800"]}`)
	f.Add("\xff:", "page=a&page=b", strings.Repeat("x", 300), `{"n": 1e400}`)
	f.Add("..", "%zz", ":", `{"n": {"n": null}, "a": "x"}`)
	r := newFixture(f, lab)
	l := keyRoute(f, r, `o:{path.id}:{query.page ?? "-"}:{header("x-tenant")}:{json.n}:{(json.a ?? [0])[0]}:{user}`)
	f.Fuzz(func(t *testing.T, id, query, tenant, body string) {
		l.forget()
		rec := r.send(t, "/keyed/"+id+"/x", query, tenant, body)
		keys := l.keys
		switch {
		case rec.Code == http.StatusOK && len(keys) == 1:
			fail.If(t, lock.Check(keys[0], lock.Options{}))
			if n := strings.Count(keys[0], ":"); n != 6 {
				t.Errorf("%q has %d parts", keys[0], n)
			}
		case rec.Code/100 == 4 && len(keys) == 0:
		default:
			t.Errorf("%d %s, locked %q", rec.Code, rec.Body, keys)
		}
	})
}

// FuzzKeysDoNotCollide checks that two different pairs of values never have the same key.
func FuzzKeysDoNotCollide(f *testing.F) {
	f.Add("1:2", "3", "1", "2:3")
	f.Add("1-x", "y", "1", "x-y")
	f.Add("a%3A", "b", "a:", "b")
	f.Add("a+b", "", "a b", "")
	f.Add("a", "", "", "a")
	f.Add("\xff", "\xfe", "\ufffd", "\ufffd")
	r := newFixture(f, lab)
	l := keyRoute(f, r, "x{query.a}-:x{query.b}y")
	f.Fuzz(func(t *testing.T, a1, b1, a2, b2 string) {
		l.forget()
		for _, pair := range [][2]string{{a1, b1}, {a2, b2}} {
			r.send(t, "/keyed/1/1", url.Values{"a": {pair[0]}, "b": {pair[1]}}.Encode(), "", "")
		}
		keys := l.keys
		if len(keys) < 2 {
			t.Skip("too long for a key")
		}
		fail.Unequal(t, a1 == a2 && b1 == b2, (keys[0] == keys[1]), "(%q, %q) is %q and (%q, %q) is %q", a1, b1, keys[0], a2, b2, keys[1])
	})
}
