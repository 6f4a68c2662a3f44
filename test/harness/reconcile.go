package harness

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"seckill/internal/reconcile"
)

// RunReconcile runs the command in a process of its own.
func RunReconcile(t *testing.T, s Stores, args ...string) (exit int, output string, r reconcile.Report) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, SelfPath(t), append([]string{"reconcile"}, args...)...)
	cmd.Env = append(os.Environ(), AsService, "SECKILL_MYSQL_DSN="+s.DB.DSN, "SECKILL_REDIS_ADDRS="+strings.Join(s.Redis, ","))
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		failed, isExit := errors.AsType[*exec.ExitError](err)
		if !isExit {
			t.Fatal(err)
		}
		exit = failed.ExitCode()
	}
	if strings.HasPrefix(out.String(), "{") {
		if err := json.Unmarshal([]byte(out.String()), &r); err != nil {
			t.Errorf("%v: %s", err, out.String())
		}
	}
	return exit, out.String() + errs.String(), r
}
