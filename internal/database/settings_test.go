package database

import (
	"maps"
	"strings"
	"testing"

	"seckill/internal/testkit/fail"
)

// What a session has set and does not have, and what a server does not permit, is refused with the name of the setting.
func TestSettingsThatDoNotSuit(t *testing.T) {
	t.Parallel()
	good := map[string]string{
		"autocommit": "ON", "completion_type": "NO_CHAIN", "sql_safe_updates": "OFF", "sql_select_limit": "18446744073709551615",
		"unique_checks": "ON", "time_zone": "+00:00", "transaction_isolation": "READ-COMMITTED", "sql_mode": "STRICT_ALL_TABLES,NO_ZERO_DATE",
		"log_bin": "ON", "binlog_format": "ROW", "read_only": "OFF", "innodb_read_only": "OFF", "tx_read_only": "OFF",
	}
	check := func(variables map[string]string) error {
		if err := sessionSuits(variables, variables["autocommit"] == "OFF" && variables["pool"] == "writers"); err != nil {
			return err
		}
		return serverSuits(variables)
	}
	for _, fits := range []map[string]string{
		{}, {"binlog_format": "MIXED"}, {"log_bin": "OFF", "binlog_format": "STATEMENT"}, {"pool": "writers", "autocommit": "OFF"},
	} {
		variables := maps.Clone(good)
		maps.Copy(variables, fits)
		fail.If(t, check(variables), "%v: ", fits)
	}
	fail.If(t, check(map[string]string{}), "a server without any of them: ")
	gate := maps.Clone(good)
	maps.Copy(gate, map[string]string{"version": "8.4.6-Vitess", "autocommit": "1", "sql_select_limit": "0"})
	fail.If(t, check(normalized(gate)), "a gate of Vitess: ")
	gate["autocommit"] = "0"
	fail.Unless(t, check(normalized(gate)), ErrUnsuitable, "a gate of Vitess that has lost autocommit: ")
	for name, value := range map[string]string{
		"autocommit": "OFF", "completion_type": "CHAIN", "sql_safe_updates": "ON", "sql_select_limit": "1", "unique_checks": "OFF", "time_zone": "SYSTEM",
		"tx_isolation": "REPEATABLE-READ", "transaction_isolation": "REPEATABLE-READ", "sql_mode": "", "binlog_format": "STATEMENT",
		"read_only": "ON", "super_read_only": "ON", "innodb_read_only": "ON", "tx_read_only": "ON", "transaction_read_only": "ON",
	} {
		variables := maps.Clone(good)
		variables[name] = value
		err := check(variables)
		if fail.Unless(t, err, ErrUnsuitable, "%s=%s: ", name, value); err != nil && !strings.Contains(err.Error(), name) {
			t.Errorf("%s=%s: %v", name, value, err)
		}
	}
}
