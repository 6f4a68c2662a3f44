package web

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"html/template"
	"io/fs"
	"maps"
	"net/http"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"seckill/internal/lock"
)

//go:embed pages static messages
var files embed.FS

// Config is what the pages need to know of the service.
type Config struct {
	// Lab lets a visitor choose a buyer's number. Otherwise the page asks for a token.
	Lab bool
	// Currency is that of all prices, by ISO 4217.
	Currency string
	// Locks are the mechanisms that the service has.
	Locks []string
}

// Site is the pages and their files, hashed. It never changes, so it may be used concurrently.
type Site struct {
	pages   map[string]map[string]*file // by path and language
	static  map[string]*file            // by name
	version string                      // hash of all static files
}

// file is a file as it is sent.
type file struct {
	contentType string
	etag        string
	cache       string
	body        []byte
	zipped      func() []byte // nil if it would not be smaller; compressed when it is first asked for
}

// The folder of the static files: /static/{version}/{name}.
const folder = "/static/"

// The values of Cache-Control.
const (
	revalidate = "no-cache"
	forEver    = "public, max-age=31536000, immutable"
	notKept    = "no-store"
)

// policy allows what the pages do and nothing else: modules, style, pictures and requests of this origin.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// New reads the embedded files of the service's pages. Its errors are those of the files themselves.
func New(cfg Config) (*Site, error) {
	return newSite(map[string]string{"/": "buyers", "/console": "console"}, cfg, nil)
}

// NewLab reads those of the laboratory's page. more are the files that come with its pictures, by name.
func NewLab(more map[string]string) (*Site, error) {
	return newSite(map[string]string{"/": "lab"}, Config{Lab: true}, more)
}

// newSite reads pages, by path, and adds more static files to those of the folder.
func newSite(pages map[string]string, cfg Config, more map[string]string) (*Site, error) {
	s := &Site{pages: make(map[string]map[string]*file), static: make(map[string]*file)}
	messages, err := Messages()
	if err != nil {
		return nil, fmt.Errorf("web: %w", err)
	}
	if err := s.addStatic(more, messages, slices.Collect(maps.Values(pages)), cfg.Locks); err != nil {
		return nil, fmt.Errorf("web: %w", err)
	}
	for at, name := range pages {
		if err := s.addPage(at, name, cfg, messages); err != nil {
			return nil, fmt.Errorf("web: %w", err)
		}
	}
	return s, nil
}

// addStatic adds the files of the folder static, more of them, and as modules the locks, and the messages of each page
// in each language.
func (s *Site) addStatic(more map[string]string, messages map[string]map[string]string, pages, here []string) error {
	names, err := fs.ReadDir(files, "static")
	if err != nil {
		return err
	}
	all := sha256.New()
	add := func(name string, body []byte) error {
		f, err := newFile(name, body, forEver)
		s.static[name] = f
		fmt.Fprintf(all, "%s %d\n%s", name, len(body), body)
		return err
	}
	for _, entry := range names {
		body, err := files.ReadFile(path.Join("static", entry.Name()))
		if err != nil {
			return err
		}
		if err := add(entry.Name(), body); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(more)) {
		if err := add(name, []byte(more[name])); err != nil {
			return err
		}
	}
	addModule := func(name string, value any) error {
		text, err := json.Marshal(value)
		if err != nil {
			return err
		}
		return add(name, fmt.Appendf(nil, "export default %s;\n", text))
	}
	if err := addModule("locks.js", locks(here)); err != nil {
		return err
	}
	slices.Sort(pages)
	for _, page := range pages {
		shown, err := s.shownOn(page)
		if err != nil {
			return err
		}
		for _, language := range slices.Sorted(maps.Keys(messages)) {
			if err := addModule(messagesOf(page, language), only(messages[language], shown)); err != nil {
				return err
			}
		}
	}
	s.version = hex.EncodeToString(all.Sum(nil)[:8])
	return nil
}

// listedLock is what the console has to know of a lock.
type listedLock struct {
	Name string `json:"name"`
	Safe bool   `json:"safe"`
	Here bool   `json:"here"` // this service has it
}

// locks lists those that a policy may name.
func locks(here []string) []listedLock {
	var all []listedLock
	for _, m := range lock.Catalogue() {
		all = append(all, listedLock{m.Name, m.Safe, slices.Contains(here, m.Name)})
	}
	return all
}

// messagesOf names the module with the messages of a page.
func messagesOf(page, language string) string { return "messages-" + page + "-" + language + ".js" }

// addPage adds a page in each language.
func (s *Site) addPage(at, name string, cfg Config, messages map[string]map[string]string) error {
	page, err := template.ParseFS(files, "pages/"+name+".html")
	if err != nil {
		return err
	}
	modules := make(map[string]bool)
	s.imports(name+".js", modules)
	s.pages[at] = make(map[string]*file)
	for language := range messages {
		var body bytes.Buffer
		if err := page.Execute(&body, struct {
			Base, Page, Language, Currency string
			Lab                            bool
			Modules                        []string
		}{folder + s.version, name, language, cfg.Currency, cfg.Lab, append(slices.Sorted(maps.Keys(modules)), messagesOf(name, language))}); err != nil {
			return err
		}
		if s.pages[at][language], err = newFile(name+".html", body.Bytes(), revalidate); err != nil {
			return err
		}
	}
	return nil
}

// mentioned finds what may be the key of a message, or the beginning of one that a module puts together.
var mentioned = regexp.MustCompile("['\"`}]([a-z]\\w*\\.?(?:\\w+\\.?)*)")

// shownOn returns what the template and the modules of a page mention.
func (s *Site) shownOn(page string) (map[string]bool, error) {
	template, err := files.ReadFile("pages/" + page + ".html")
	if err != nil {
		return nil, err
	}
	modules, shown := make(map[string]bool), make(map[string]bool)
	s.imports(page+".js", modules)
	for _, name := range slices.Collect(maps.Keys(modules)) {
		for _, m := range lazy.FindAllSubmatch(s.static[name].body, -1) {
			s.imports(string(m[1]), modules)
		}
	}
	texts := [][]byte{template}
	for name := range modules {
		texts = append(texts, s.static[name].body)
	}
	for _, text := range texts {
		for _, m := range mentioned.FindAllSubmatch(text, -1) {
			shown[string(m[1])] = true
		}
	}
	return shown, nil
}

// only returns those of the messages that a page mentions by their key or by its beginning.
func only(messages map[string]string, shown map[string]bool) map[string]string {
	out := make(map[string]string)
	for key, text := range messages {
		for i := range key {
			if shown[key] || key[i] == '.' && shown[key[:i+1]] {
				out[key] = text
			}
		}
	}
	return out
}

// imported finds what a module imports, and lazy what it imports when that is needed.
var (
	imported = regexp.MustCompile(`(?m)^import .*\bfrom '\./([\w.]+)';$`)
	lazy     = regexp.MustCompile(`\bimport\('\./([\w.]+)'\)`)
)

// imports adds a module and what it imports, so that a browser asks for all of them at once.
func (s *Site) imports(name string, modules map[string]bool) {
	f := s.static[name]
	if f == nil || modules[name] {
		return
	}
	modules[name] = true
	for _, m := range imported.FindAllSubmatch(f.body, -1) {
		s.imports(string(m[1]), modules)
	}
}

var contentTypes = map[string]string{
	".html": "text/html; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".svg":  "image/svg+xml",
}

func newFile(name string, body []byte, cache string) (*file, error) {
	kind, ok := contentTypes[path.Ext(name)]
	if !ok {
		return nil, fmt.Errorf("%s: the type is not known", name)
	}
	sum := sha256.Sum256(body)
	return &file{
		contentType: kind, etag: hex.EncodeToString(sum[:12]), cache: cache, body: body,
		// Not at once: compressing all of them takes as long as the rest of a start.
		zipped: sync.OnceValue(func() []byte { return compress(body) }),
	}, nil
}

// compress returns the text as gzip, or nil if that is not smaller.
func compress(text []byte) []byte {
	var zipped bytes.Buffer
	w, err := gzip.NewWriterLevel(&zipped, gzip.BestCompression)
	if err != nil {
		panic(err) // the level is a constant
	}
	// Writing to a bytes.Buffer cannot fail.
	_, _ = w.Write(text)
	_ = w.Close()
	if zipped.Len() >= len(text) {
		return nil
	}
	return zipped.Bytes()
}

// find returns the file that a URL names and how it may be kept; of a page that in the language. An encoded slash (%2F)
// separates nothing (RFC 3986 §2.2), and no name contains a slash.
func (s *Site) find(u *url.URL, language string) (f *file, cache string) {
	if strings.Contains(strings.ToLower(u.EscapedPath()), "%2f") {
		return nil, ""
	}
	if f := s.pages[u.Path][language]; f != nil {
		return f, f.cache
	}
	rest, ok := strings.CutPrefix(u.Path, folder)
	if !ok {
		return nil, ""
	}
	version, name, _ := strings.Cut(rest, "/")
	f = s.static[name]
	if f != nil && version != s.version {
		// While a new version is rolled out, a page of one instance asks another instance for its files.
		// This version's file is better than none, but must not be kept under the other's name.
		return f, notKept
	}
	return f, forEver
}

// Serves reports whether the site has something at a URL. Only its path counts.
func (s *Site) Serves(u *url.URL) bool {
	f, _ := s.find(u, fallback)
	return f != nil || u.Path == QRPath
}

// Paths returns the paths of the pages, and that of QR codes.
func (s *Site) Paths() []string {
	return append(slices.Sorted(maps.Keys(s.pages)), QRPath)
}

// ServeHTTP answers GET and HEAD for a URL that the site serves.
func (s *Site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f, cache := s.find(r.URL, s.languageOf(r))
	if f == nil && r.URL.Path != QRPath {
		http.NotFound(w, r)
		return
	}
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	if f == nil {
		serveQR(w, r)
		return
	}
	h.Set("Content-Type", f.contentType)
	h.Set("Cache-Control", cache)
	h.Set("Vary", "Accept-Encoding")
	if s.pages[r.URL.Path] != nil {
		h.Add("Vary", "Accept-Language")
	}
	body, tag := f.body, f.etag
	if acceptsGzip(r.Header.Values("Accept-Encoding")) {
		if zipped := f.zipped(); zipped != nil {
			h.Set("Content-Encoding", "gzip")
			body, tag = zipped, tag+"-gzip"
		}
	}
	h.Set("ETag", `"`+tag+`"`)
	if r.Header.Get("If-Match") == "" { // ServeContent would send it with a 412, which has no body
		h.Set("Content-Length", strconv.Itoa(len(body)))
	}
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(body))
}

// fallback is the language of a visitor whose languages the site does not have.
const fallback = "en"

// languageOf returns the first language of the visitor's that the site has. Browsers list them in the order of preference.
func (s *Site) languageOf(r *http.Request) string {
	for tag := range strings.SplitSeq(strings.Join(r.Header.Values("Accept-Language"), ","), ",") {
		tag, _, _ = strings.Cut(strings.TrimSpace(tag), ";")
		tag, _, _ = strings.Cut(strings.ToLower(tag), "-")
		if s.pages["/"][tag] != nil {
			return tag
		}
	}
	return fallback
}

// acceptsGzip reads Accept-Encoding (RFC 9110 §12.5.3).
func acceptsGzip(headers []string) bool {
	any := false
	for _, header := range headers {
		for coding := range strings.SplitSeq(header, ",") {
			name, parameter, _ := strings.Cut(coding, ";")
			_, quality, given := strings.Cut(parameter, "=")
			q, err := strconv.ParseFloat(strings.TrimSpace(quality), 64)
			accepted := !given || err == nil && q > 0
			switch strings.ToLower(strings.TrimSpace(name)) {
			case "gzip", "x-gzip":
				return accepted
			case "*":
				any = accepted
			}
		}
	}
	return any
}
