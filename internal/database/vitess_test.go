package database

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"testing"

	"seckill/internal/order"
	"seckill/internal/testkit/fail"
	"seckill/internal/voucher"
	"seckill/migrations"
)

// Every table has a place in Vitess, and each row of a table with a voucher is in the voucher's shard.
func TestVSchema(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../deploy/vitess/vschema.json")
	fail.NowIf(t, err)
	var vschema struct {
		Tables map[string]struct {
			Vindexes []struct{ Column string } `json:"column_vindexes"`
		}
	}
	fail.NowIf(t, json.Unmarshal(text, &vschema))
	tables := map[string]string{"schema_migrations": ""} // of golang-migrate
	var schema []byte
	fail.NowIf(t, fs.WalkDir(migrations.Files, "mysql", func(path string, entry fs.DirEntry, err error) error {
		if err == nil && regexp.MustCompile(`\.up\.sql$`).MatchString(path) {
			file, err := fs.ReadFile(migrations.Files, path)
			schema = append(schema, file...)
			return err
		}
		return err
	}))
	for _, found := range regexp.MustCompile(`(?s)CREATE TABLE (?:IF NOT EXISTS )?(\w+) \((.*?)\) ENGINE`).FindAllSubmatch(schema, -1) {
		tables[string(found[1])] = string(found[2])
	}
	for _, found := range regexp.MustCompile(`ALTER TABLE (\w+)\s+ADD COLUMN voucher_id`).FindAllSubmatch(schema, -1) {
		tables[string(found[1])] = " voucher_id "
	}
	if len(tables) < 15 {
		t.Errorf("only %d tables were found", len(tables))
	}
	ofVoucher := regexp.MustCompile(`\bvoucher_id\b`)
	for name, columns := range tables {
		vindexes := vschema.Tables[name].Vindexes
		switch {
		case len(vindexes) != 1: // a second one would cost each order a second transaction
			t.Errorf("%s: %d vindexes, want 1", name, len(vindexes))
		case ofVoucher.MatchString(columns) && vindexes[0].Column != "voucher_id", name == "vouchers" && vindexes[0].Column != "id":
			t.Errorf("%s: the shard is decided by %s, want the voucher", name, vindexes[0].Column)
		}
	}
	for name := range vschema.Tables {
		if _, there := tables[name]; !there {
			t.Errorf("%s: there is no such table", name)
		}
	}
}

// What Vitess cannot do is refused there, and nowhere else.
func TestUnsuitedOnVitess(t *testing.T) {
	t.Parallel()
	server := &DB{engine: engine{galera: &cluster{}, batches: true}}
	for name, tc := range map[string]struct {
		change func(*voucher.Policy)
		field  string
	}{
		"the default":          {func(*voucher.Policy) {}, ""},
		"rows":                 {func(p *voucher.Policy) { p.Stock = voucher.StockRows }, ""},
		"a lock that is a row": {func(p *voucher.Policy) { p.Lock = "mysql-row" }, ""},
		"units":                {func(p *voucher.Policy) { p.Stock = voucher.StockUnits }, "policy.stock"},
		"GET_LOCK":             {func(p *voucher.Policy) { p.Lock = "mysql-get-lock" }, "policy.lock"},
		"FOR UPDATE":           {func(p *voucher.Policy) { p.Lock = "mysql-for-update" }, "policy.lock"},
	} {
		p := voucher.DefaultPolicy()
		tc.change(&p)
		for gate, want := range map[bool]string{false: "", true: tc.field} {
			server.galera.gate.Store(gate)
			field, why := server.Unsuited(p)
			fail.Unequal(t, field, want, "%s, on Vitess: %v: ", name, gate)
			fail.Unequal(t, why != "", want != "", "%s, on Vitess: %v: a reason", name, gate)
		}
	}
	server.galera.gate.Store(true)
	took := &tx{db: server}
	if err := took.TakeUnit(t.Context(), 1, 0); !errors.Is(err, order.ErrUnavailable) || len(took.pending) > 0 {
		t.Errorf("a unit of a voucher that was created elsewhere: %v, %d statements", err, len(took.pending))
	}
}

// A flush of one server says nothing about another one.
func TestLogsOfVouchers(t *testing.T) {
	t.Parallel()
	d := &DB{engine: engine{galera: &cluster{}, batches: true}}
	fail.Unequal(t, fmt.Sprint(d.logsOf([]int64{7, 5, 7})), "[0]", "one server: ")
	d.galera.gate.Store(true)
	fail.Unequal(t, fmt.Sprint(d.logsOf([]int64{7, 5, 7})), "[5 7]", "Vitess: ")
}
