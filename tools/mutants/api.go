package main

func inAPI() []mutant {
	const (
		auth     = "./internal/auth"
		payment  = "./internal/payment"
		api      = "./internal/httpapi"
		samesite = "./internal/samesite ./internal/httpapi"
	)
	return []mutant{
		{"a token of any algorithm is accepted", "internal/auth/auth.go",
			"jwt.WithValidMethods([]string{jwt.SigningMethodHS256.Alg()}),", "", auth},
		{"a user id may be 0 or negative", "internal/auth/auth.go", "err != nil || id <= 0 || strconv", "err != nil || strconv", auth},
		{"the claim SUB is taken for sub", "internal/auth/auth.go", "claims := jwt.MapClaims{}\n	if _, err := t.parser.ParseWithClaims(token, claims, t.key); err != nil {",
			"folded := jwt.RegisteredClaims{}\n	_, err = t.parser.ParseWithClaims(token, &folded, t.key)\n	claims := jwt.MapClaims{\"sub\": folded.Subject, \"exp\": float64(0)}\n	if folded.ExpiresAt != nil {\n		claims[\"exp\"] = float64(folded.ExpiresAt.Unix())\n	}\n	if err != nil {", auth},
		{"a provider's STATUS is taken for its status", "internal/payment/unmarshal.go", "				delete(v, name)\n", "", payment},
		{"the page of a payment that cannot be stored is kept", "internal/payment/wire.go", "if len(address) > maxURL {", "if false {", payment},
		{"a provider's answer that will never be usable is asked for again for ever", "internal/payment/provider.go",
			"case errors.Is(err, ErrMalformed) && !errors.Is(err, ErrUnavailable):", "case false:", payment},
		{"yen are hundredths", "internal/payment/currency.go", "case slices.Contains(notInHundredths, code):", "case slices.Contains(notInHundredths, code) && code != \"JPY\":", payment},
		{"a webhook's signature is not compared", "internal/payment/webhook.go",
			"if secret.VerifyIgnoringTimestamp(body, header) != nil {", "if false {", payment},
		{"a webhook that was recorded is accepted for ever", "internal/payment/webhook.go",
			"if err := secret.Verify(body, header); err != nil {", "if err := secret.Verify(body, header); err != nil && false {", payment},
		{"a wrong API key is taken for a request that cannot succeed", "internal/payment/client.go",
			"case http.StatusBadRequest, http.StatusUnprocessableEntity,", "case http.StatusUnauthorized, http.StatusBadRequest, http.StatusUnprocessableEntity,", payment},
		{"the pause between two attempts of a refund grows without bound", "internal/payment/run.go",
			"min(longestRetry, firstRetry<<min(r.failed, 10))", "firstRetry<<min(r.failed, 10)", payment},
		{"a payment that was refunded as a whole counts as paid", "internal/payment/settlements.go",
			"if now.RefundedCents < now.AmountCents {", "if now.RefundedCents <= now.AmountCents {", payment},
		{"the answer to one user's key is given to another", "internal/httpapi/idempotent.go",
			"key := idempotency.Key{UserID: r.user, Value: value}", "key := idempotency.Key{Value: value}", api},
		{"a refusal frees the key of an attempt whose outcome is unknown", "internal/httpapi/idempotent.go",
			"		if at.resumed {\n			effect = effectUnknown", "		if false {\n			effect = effectUnknown", api},
		{"lab mode accepts a page whose name was made to resolve to it", "internal/samesite/samesite.go",
			"	if !g.serves(r) {\n		return ErrHost\n	}\n	if g.forgery.Check(r)", "	if g.forgery.Check(r)", samesite},
		{"lab mode accepts a form of another site", "internal/samesite/samesite.go",
			"if g.forgery.Check(r) != nil {", "if false {", samesite},
		{"a refusal does not say when to come back", "internal/httpapi/adapter.go",
			`h["Retry-After"] = out.retryAfter`, "_ = out.retryAfter", api},
		{"the largest body is refused", "internal/httpapi/body.go", "if r.ContentLength > maxBody {", "if r.ContentLength >= maxBody {", api},
		{"a body may be one byte too large", "internal/httpapi/body.go", "r.Body, maxBody)", "r.Body, maxBody+1)", api},
		{"a connection goes on after a body in chunks", "internal/httpapi/headerlines.go", "if r.ContentLength < 0 {", "if false {", api},
		{"an offset of 24 hours is one", "internal/httpapi/object.go", "|2[0-3]):[0-5]", "|2[0-4]):[0-5]", api},
		{"one header line more is accepted", "internal/httpapi/headerlines.go", "const maxHeaderLines = 100", "const maxHeaderLines = 101", api},
		{"a guard that lost its lock goes on as if it had it", "internal/httpapi/guard.go",
			"lost != nil && !g.BestEffort {", "lost != nil && false {", api},
		{"anybody may start a rush outside lab mode", "internal/httpapi/rush.go", "if !a.cfg.Lab {", "if false {", api},
		{"a weak lock is called safe in the console", "internal/web/static/policy.js",
			"'setnx-expire': false, naive: false,", "'setnx-expire': false, naive: true,", "./internal/web"},
		{"a page that was reloaded orders again under another key", "internal/web/static/purchase.js",
			"sessionStorage.setItem(keyName(voucherID), key);", "", "./test/pages"},
		{"a logging request waits for the reader of the log", "internal/logbuffer/logbuffer.go",
			"	w.buf = spare[:0]\n	w.mu.Unlock()\n	if len(lines) == 0 {\n		return lines, nil\n	}\n	n, err := w.out.Write(lines)",
			"	w.buf = spare[:0]\n	if len(lines) == 0 {\n		w.mu.Unlock()\n		return lines, nil\n	}\n	n, err := w.out.Write(lines)\n	w.mu.Unlock()",
			"./internal/logbuffer"},
		{"a balancer is told of a stop only when the delay is over", "internal/service/serve.go",
			"	api.Drain()\n	if delay > 0 {", "	defer api.Drain()\n	if delay > 0 {", "./internal/service ./test/faults"},
		{"a stop does not wait for the requests", "internal/service/serve.go",
			"context.WithTimeout(ctx, timeout)", "context.WithTimeout(ctx, 0*timeout)", "./internal/service ./test/faults"},
		{"admission is not ready without the database, which it does not need", "internal/service/readiness.go",
			`{Name: flowAdmission, Needs: []string{"redis",`, `{Name: flowAdmission, Needs: []string{"database", "redis",`, "./internal/service ./test/faults"},
	}
}
