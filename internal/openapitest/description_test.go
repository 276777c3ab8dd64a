package openapitest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// shop is a small description with one of everything.
const shop = `
openapi: 3.1.0
info: {title: shop, version: '1'}
paths:
  /orders:
    post:
      parameters:
        - {name: Key, in: header, schema: {type: string, pattern: '^[a-z]+$'}}
      requestBody:
        required: true
        content:
          application/json:
            schema: {$ref: '#/components/schemas/Order'}
            example: {count: 1, note: null}
      responses:
        '202':
          description: taken
          headers:
            Location: {required: true, schema: {type: string, pattern: '^/orders/'}}
            Replayed: {schema: {const: 'true'}}
        '400': {$ref: '#/components/responses/Problem'}
    get:
      parameters:
        - {name: limit, in: query, required: true, schema: {type: integer, minimum: 1}}
      responses:
        '200':
          description: all of them
          headers:
            Total: {schema: {type: integer, minimum: 0}}
          content:
            application/json:
              schema: {type: array, items: {$ref: '#/components/schemas/Order'}}
  /orders/{id}:
    parameters:
      - {name: id, in: path, required: true, schema: {type: string, pattern: '^\d+$'}}
    get:
      responses:
        '200':
          description: one
          content:
            application/vnd.order+json:
              schema: {$ref: '#/components/schemas/Order'}
  /orders/latest:
    get:
      responses:
        '200':
          description: its name
          content:
            text/plain:
              schema: {const: "latest\n"}
components:
  schemas:
    Order:
      type: object
      additionalProperties: false
      required: [count]
      properties:
        count: {type: integer}
        note: {type: [string, 'null']}
        at: {type: string, format: date-time}
      examples:
        - {count: 2}
  responses:
    Problem: &problem
      description: wrong
      content:
        application/problem+json:
          schema: {type: object}
    Unauthorized:
      description: no key
      headers:
        WWW-Authenticate: {required: true, schema: {const: Bearer}}
      content:
        application/problem+json:
          schema: {type: object}
    Forbidden: *problem
    NotFound: *problem
    MethodNotAllowed: *problem
`

func TestOpen(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "shop.yaml")
	require.NoError(t, os.WriteFile(path, []byte(shop), 0o600))
	description, err := Open(path)
	require.NoError(t, err)
	require.Equal(t, []string{"GET /orders", "POST /orders", "GET /orders/latest", "GET /orders/{id}"}, description.Operations())

	_, err = Open(path + "x")
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestWrongDescriptions(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ right, wrong, reason string }{
		"no YAML":                   {"openapi: 3.1.0", "openapi: [", "read YAML"},
		"other version":             {"openapi: 3.1.0", "openapi: 3.0.3", "not an OpenAPI 3.1 description"},
		"no title":                  {"title: shop, ", "", "not an OpenAPI 3.1 description"},
		"unknown word":              {"    post:", "    postt:", "not an OpenAPI 3.1 description"},
		"answer without a meaning":  {"description: taken", "summary: taken", "not an OpenAPI 3.1 description"},
		"type that does not exist":  {"count: {type: integer}", "count: {type: int}", "schemas/Order"},
		"pattern that is none":      {`'^\d+$'`, `'('`, "regex"},
		"type of a header":          {"Total: {schema: {type: integer", "Total: {schema: {type: int", "Total"},
		"example of a media type":   {"example: {count: 1, note: null}", "example: {note: null}", "wrong example"},
		"example of a schema":       {"- {count: 2}", "- {count: two}", "wrong example"},
		"reference to a schema":     {"application/json:\n            schema: {$ref: '#/components/schemas/Order'}", "application/json:\n            schema: {$ref: '#/components/schemas/Orders'}", "leads nowhere"},
		"reference to a response":   {"'400': {$ref: '#/components/responses/Problem'}", "'400': {$ref: '#/components/responses/Problems'}", "leads nowhere"},
		"reference inside a schema": {"count: {type: integer}", "count: {$ref: '#/components/schemas/Count'}", "Count"},
		"range of statuses":         {"'400':", "4XX:", "is no status"},
		"no answer to strangers":    {"    NotFound:", "    Missing:", "NotFound is missing"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Contains(t, shop, test.right)
			_, err := Parse([]byte(strings.Replace(shop, test.right, test.wrong, 1)))
			require.ErrorContains(t, err, test.reason)
		})
	}
}
