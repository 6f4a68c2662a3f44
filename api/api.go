// Package api embeds the description of the HTTP interface, which the program itself serves.
package api

import _ "embed"

// OpenAPI describes the HTTP interface in OpenAPI 3.1. The tests of internal/httpapi hold every route, field and
// problem code against it.
//
//go:embed openapi.json
var OpenAPI []byte
