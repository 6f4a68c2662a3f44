package httpapi

import (
	"context"
	"net/http"

	"seckill/api"
)

// showOpenAPI is GET /openapi.json: the description of this interface.
func (a *API) showOpenAPI(context.Context, *request) (reply, error) {
	return reply{status: http.StatusOK, contentType: a.problems.json, body: api.OpenAPI, outcome: "ok"}, nil
}
