package httpapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/file"
	"github.com/expr-lang/expr/types"
	"github.com/expr-lang/expr/vm"

	"seckill/internal/lock"
)

// keyTemplate is the compiled key of a [Guard].
//
// Two requests get the same key if and only if all expressions have the same values for both. Values are
// escaped as in a URL query and then contain only the characters of [keptByEscape]. Every other character
// of a key comes from the template. At least one such character must separate two expressions, so that a
// key can be parsed in one way only: with {a}:{b}, "1:2" and "3" give 1%3A2:3, whereas "1" and "2:3" give
// 1:2%3A3.
type keyTemplate struct {
	parts []keyPart
	uses  map[string]bool // the names that the expressions read
}

// keyPart is a part of a template.
type keyPart struct {
	text       string // a literal, or an expression without its braces
	at         int    // its position in the template, in bytes
	expression bool
	program    *vm.Program // of an expression
}

// compileKey compiles a template for a route. An error names the position.
func compileKey(source string, rt route) (*keyTemplate, error) {
	wrong := func(at int, format string, args ...any) error {
		return fmt.Errorf("key %q, column %d: %w", source, utf8.RuneCountInString(source[:at])+1, fmt.Errorf(format, args...))
	}
	parts, at, err := splitKey(source)
	if err != nil {
		return nil, wrong(at, "%w", err)
	}
	t := &keyTemplate{parts: parts, uses: make(map[string]bool)}
	open := false // the last part was an expression, and no character separates it from the next yet
	literal := 0
	for i := range t.parts {
		p := &t.parts[i]
		if !p.expression {
			literal += len(p.text)
			if !utf8.ValidString(p.text) || strings.ContainsFunc(p.text, unicode.IsControl) {
				return nil, wrong(p.at, "a key has no control characters and is UTF-8")
			}
			open = open && !strings.ContainsFunc(p.text, func(c rune) bool { return !keptByEscape(c) })
			continue
		}
		if open {
			return nil, wrong(p.at, "no character separates {%s} from the expression before it; put a ':' between them", p.text)
		}
		open = true
		if at, err := t.compile(p, rt); err != nil {
			return nil, wrong(p.at+at, "%w in {%s}", err, p.text)
		}
	}
	if len(parts) == 0 || literal > lock.MaxKey {
		return nil, wrong(0, "a key has 1 to %d bytes", lock.MaxKey)
	}
	return t, nil
}

// splitKey splits a template into literals and the expressions between braces. Braces inside quotes do not
// count, and braces of maps inside an expression must be balanced. at is the position of an error, in
// bytes.
func splitKey(source string) (parts []keyPart, at int, err error) {
	begin, depth, quote := 0, 0, byte(0)
	for i := 0; i < len(source); i++ {
		c := source[i]
		switch {
		case quote != 0:
			if c == '\\' && quote != '`' {
				i++
			} else if c == quote {
				quote = 0
			}
		case depth > 0 && (c == '"' || c == '\'' || c == '`'):
			quote = c
		case c == '{':
			if depth == 0 {
				parts = appendLiteral(parts, source[begin:i], begin)
				begin = i + 1
			}
			depth++
		case c == '}' && depth == 0:
			return nil, i, errors.New("this brace has no opening brace")
		case c == '}':
			if depth--; depth == 0 {
				parts = append(parts, keyPart{text: source[begin:i], at: begin, expression: true})
				begin = i + 1
			}
		}
	}
	if depth > 0 {
		return nil, begin - 1, errors.New("this brace is not closed")
	}
	return appendLiteral(parts, source[begin:], begin), 0, nil
}

func appendLiteral(parts []keyPart, text string, at int) []keyPart {
	if text == "" {
		return parts
	}
	return append(parts, keyPart{text: text, at: at})
}

// compile compiles an expression. at is the position of an error in it, in bytes.
func (t *keyTemplate) compile(p *keyPart, rt route) (at int, err error) {
	p.program, err = expr.Compile(p.text, expr.Env(rt.environment()),
		// A key with the time in it, or one that depends on the order of a map, would be different each
		// time and exclude no other request.
		expr.DisableBuiltin("now"), expr.DisableBuiltin("keys"), expr.DisableBuiltin("values"), expr.DisableBuiltin("toPairs"))
	if where, ok := errors.AsType[*file.Error](err); ok {
		return len(string([]rune(p.text)[:min(where.From, utf8.RuneCountInString(p.text))])), errors.New(where.Message)
	}
	if err != nil {
		return 0, err
	}
	if kind := kindOfType(p.program.Node().Type()); kind != "" {
		return 0, fmt.Errorf("a key cannot contain %s", kind)
	}
	node := p.program.Node()
	ast.Walk(&node, t)
	return 0, nil
}

// Visit implements [ast.Visitor]. It records which names the expression reads.
func (t *keyTemplate) Visit(node *ast.Node) {
	id, ok := (*node).(*ast.IdentifierNode)
	switch {
	case ok && id.Value == "$env": // any of them
		t.uses["query"], t.uses["json"] = true, true
	case ok:
		t.uses[id.Value] = true
	}
}

// environment returns the names that an expression may use, with their types. Names that the route cannot
// have are missing, so that an expression that uses them does not compile.
func (rt route) environment() types.Map {
	path := types.Map{}
	for _, name := range rt.params() {
		path[name] = types.String
	}
	env := types.Map{
		"path":   path,
		"query":  types.TypeOf(map[string]any{}),
		"header": types.TypeOf(func(string) any { return nil }),
	}
	if rt.who == user {
		env["user"] = types.String
	}
	if rt.method != http.MethodGet {
		env["json"] = types.TypeOf(map[string]any{})
	}
	return env
}

// environment returns the values of the names that t uses.
func (t *keyTemplate) environment(r *request) (map[string]any, error) {
	path := make(map[string]any, len(r.gin.Params))
	for _, p := range r.gin.Params {
		path[p.Key] = p.Value
	}
	env := map[string]any{"path": path, "user": formatID(r.user), "header": func(name string) any {
		if values := r.Header.Values(name); len(values) > 0 {
			return values[0]
		}
		return nil
	}}
	if t.uses["query"] {
		given, err := r.query()
		if err != nil {
			return nil, err
		}
		query := make(map[string]any, len(given))
		for name, values := range given {
			query[name] = values[0]
		}
		env["query"] = query
	}
	if t.uses["json"] {
		body, err := r.readJSON()
		if err != nil {
			return nil, err
		}
		if err := decodeObject(body, func(o *object) { env["json"] = o.remaining() }); err != nil {
			return nil, err
		}
	}
	return env, nil
}

// render returns the key for a request, which every mechanism accepts, or an [errInvalid].
func (t *keyTemplate) render(r *request) (string, error) {
	env, err := t.environment(r)
	if err != nil {
		return "", err
	}
	key := make([]byte, 0, 64)
	for _, p := range t.parts {
		if !p.expression {
			key = append(key, p.text...)
			continue
		}
		value, err := expr.Run(p.program, env)
		if err != nil {
			return "", invalid("the lock's key needs {%s}, which this request has no value for", p.text)
		}
		text, wrong := keyText(value)
		if wrong != "" {
			return "", invalid("the lock's key needs {%s}, which is %s", p.text, wrong)
		}
		if len(text) > lock.MaxKey {
			return "", invalid("the lock's key needs {%s}, which is %d bytes long; a key has at most %d", p.text, len(text), lock.MaxKey)
		}
		key = append(key, url.QueryEscape(text)...)
	}
	if len(key) == 0 || len(key) > lock.MaxKey {
		return "", invalid("the lock's key would be %d bytes long; 1 to %d", len(key), lock.MaxKey)
	}
	return string(key), nil
}

// keyText returns a value as text, or what is wrong with it. Equal texts are equal keys: 5 and "5" name the
// same thing. Therefore a number must be a whole number, which has one spelling; 100, 1e2 and 100.0 would
// be three keys.
func keyText(value any) (text, wrong string) {
	switch v := value.(type) {
	case nil:
		return "", "missing"
	case string:
		return v, ""
	case bool:
		return strconv.FormatBool(v), ""
	case json.Number:
		if strings.Trim(string(v), "-0123456789") != "" {
			return "", fractional
		}
		return string(v), ""
	}
	if kind := kindOfType(reflect.TypeOf(value)); kind != "" {
		return "", kind
	}
	return fmt.Sprint(value), ""
}

// fractional describes 1.5, 1e2 and the result of every division.
const fractional = "a number with a fraction or an exponent"

// kindOfType names a type that a key cannot have. It is "" for a string, a whole number or a boolean, and
// for a type whose values decide.
func kindOfType(t reflect.Type) string {
	if t == nil {
		return ""
	}
	switch t.Kind() {
	case reflect.String, reflect.Bool, reflect.Interface,
		reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return ""
	case reflect.Float32, reflect.Float64:
		return fractional
	case reflect.Slice, reflect.Array:
		return "an array"
	case reflect.Map:
		return "an object"
	case reflect.Func:
		return "a function"
	}
	return "not a text, a whole number or a boolean"
}

// keptByEscape reports whether the output of [url.QueryEscape] can contain a character.
func keptByEscape(c rune) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.ContainsRune("-_.~%+", c)
}
