package openapitest

import (
	"bytes"
	_ "embed" // the schema of descriptions
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"
)

// The schema of OpenAPI 3.1 descriptions as published by the OpenAPI Initiative
// (https://spec.openapis.org/oas/3.1/schema/2022-10-07, Apache License 2.0).
//
//go:embed openapi-3.1.json
var openAPISchema []byte

// A Description is an OpenAPI file, and a memory of the answers that have been
// checked against it. It is safe for concurrent use.
type Description struct {
	operations []*operation
	// What an address answers that the file does not name, or that does not
	// know the method: the responses of these names in its components.
	unauthorized, forbidden, notFound, methodNotAllowed response

	mutex sync.Mutex
	seen  map[string]bool
}

type operation struct {
	method, path string
	parameters   []parameter
	body         map[string]*jsonschema.Schema // by media type; nil for no body
	responses    map[int]response
}

type parameter struct {
	name, in string
	required bool
	schema   *jsonschema.Schema
}

type response struct {
	headers map[string]header
	content map[string]*jsonschema.Schema // by media type; empty for no body
}

type header struct {
	required bool
	schema   *jsonschema.Schema
}

// Open reads a file. The error says what is wrong with it, by the schema of
// OpenAPI descriptions, that of its own schemas, and its examples.
func Open(path string) (*Description, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the description: %w", err)
	}
	description, err := Parse(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return description, nil
}

// Parse is Open of a file's text.
func Parse(text []byte) (*Description, error) {
	document, err := toJSON(text)
	if err != nil {
		return nil, err
	}
	if err := checkDocument(document); err != nil {
		return nil, err
	}
	r, err := newReader(document)
	if err != nil {
		return nil, err
	}
	d := &Description{
		seen:             make(map[string]bool),
		unauthorized:     r.response(r.at("components", "responses", "Unauthorized")),
		forbidden:        r.response(r.at("components", "responses", "Forbidden")),
		notFound:         r.response(r.at("components", "responses", "NotFound")),
		methodNotAllowed: r.response(r.at("components", "responses", "MethodNotAllowed")),
	}
	paths := r.at("paths")
	for _, path := range paths.names() {
		shared := r.parameters(r.child(paths, path, "parameters"))
		for _, method := range []string{"get", "put", "post", "delete", "patch"} {
			if node := r.child(paths, path, method); node.value != nil {
				d.operations = append(d.operations, r.operation(strings.ToUpper(method), path, shared, node))
			}
		}
	}
	r.checkExamples(r.at())
	return d, errors.Join(r.mistakes...)
}

// toJSON reads YAML as what encoding/json would have made of the same.
func toJSON(text []byte) (any, error) {
	var document any
	if err := yaml.Unmarshal(text, &document); err != nil {
		return nil, fmt.Errorf("read YAML: %w", err)
	}
	encoded, err := json.Marshal(document)
	if err != nil {
		return nil, fmt.Errorf("read YAML as JSON: %w", err)
	}
	return jsonschema.UnmarshalJSON(bytes.NewReader(encoded))
}

func checkDocument(document any) error {
	schema, err := jsonschema.UnmarshalJSON(bytes.NewReader(openAPISchema))
	if err != nil {
		return fmt.Errorf("read the schema of descriptions: %w", err)
	}
	compiler := newCompiler()
	if err := compiler.AddResource("openapi-3.1.json", schema); err != nil {
		return fmt.Errorf("read the schema of descriptions: %w", err)
	}
	compiled, err := compiler.Compile("openapi-3.1.json")
	if err != nil {
		return fmt.Errorf("read the schema of descriptions: %w", err)
	}
	if err := compiled.Validate(document); err != nil {
		return fmt.Errorf("not an OpenAPI 3.1 description: %w", err)
	}
	return nil
}

func newCompiler() *jsonschema.Compiler {
	compiler := jsonschema.NewCompiler()
	compiler.DefaultDraft(jsonschema.Draft2020)
	compiler.AssertFormat()
	return compiler
}

// Operations lists what the file describes, as "METHOD /path".
func (d *Description) Operations() []string {
	var names []string
	for _, operation := range d.operations {
		names = append(names, operation.name())
	}
	return names
}

func (o *operation) name() string { return o.method + " " + o.path }

// Unseen lists the answers in the file that no checked exchange has had, as
// "METHOD /path status", but for those of the operations left out.
func (d *Description) Unseen(leftOut ...string) []string {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	var unseen []string
	for _, operation := range d.operations {
		for _, status := range slices.Sorted(maps.Keys(operation.responses)) {
			name := operation.name() + " " + strconv.Itoa(status)
			if !d.seen[name] && !slices.Contains(leftOut, operation.name()) {
				unseen = append(unseen, name)
			}
		}
	}
	return unseen
}

func (d *Description) remember(operation *operation, status int) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	d.seen[operation.name()+" "+strconv.Itoa(status)] = true
}
