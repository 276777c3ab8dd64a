package openapitest

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// documentURL names the file for the library, which loads nothing.
const documentURL = "urn:openapi"

// reader turns a document that is valid OpenAPI into operations, and collects
// what is wrong with it all the same.
type reader struct {
	document any
	compiler *jsonschema.Compiler
	mistakes []error
}

func newReader(document any) (*reader, error) {
	compiler := newCompiler()
	if err := compiler.AddResource(documentURL, document); err != nil {
		return nil, fmt.Errorf("read the description's schemas: %w", err)
	}
	return &reader{document: document, compiler: compiler}, nil
}

// A node is a place in the document; its value is nil if there is nothing.
type node struct {
	pointer string // JSON Pointer (RFC 6901)
	value   any
}

func (n node) names() []string {
	object, _ := n.value.(map[string]any)
	return slices.Sorted(maps.Keys(object))
}

func (n node) text(name string) string {
	object, _ := n.value.(map[string]any)
	text, _ := object[name].(string)
	return text
}

func (n node) isTrue(name string) bool {
	object, _ := n.value.(map[string]any)
	return object[name] == true
}

func (r *reader) at(names ...string) node { return r.child(node{value: r.document}, names...) }

// child goes down by names, and to where references point.
func (r *reader) child(from node, names ...string) node {
	for _, name := range names {
		escaped := strings.ReplaceAll(strings.ReplaceAll(name, "~", "~0"), "/", "~1")
		pointer := from.pointer + "/" + escaped
		switch value := from.value.(type) {
		case map[string]any:
			from = node{pointer, value[name]}
		case []any:
			index, err := strconv.Atoi(name)
			if err != nil || index >= len(value) {
				return node{pointer: pointer}
			}
			from = node{pointer, value[index]}
		default:
			return node{pointer: pointer}
		}
		if target := from.text("$ref"); target != "" {
			from = r.follow(from, target)
		}
	}
	return from
}

func (r *reader) follow(from node, target string) node {
	pointer, local := strings.CutPrefix(target, "#/")
	var names []string
	for name := range strings.SplitSeq(pointer, "/") {
		names = append(names, strings.ReplaceAll(strings.ReplaceAll(name, "~1", "/"), "~0", "~"))
	}
	found := r.at(names...)
	if !local || found.value == nil {
		r.mistakes = append(r.mistakes, fmt.Errorf("%s: %q leads nowhere", from.pointer, target))
	}
	return found
}

func (r *reader) schema(at node) *jsonschema.Schema {
	// '%' and blanks in a name are escaped a second time, for the URL.
	fragment := strings.NewReplacer("%", "%25", " ", "%20", "{", "%7B", "}", "%7D").Replace(at.pointer)
	schema, err := r.compiler.Compile(documentURL + "#" + fragment)
	if err != nil {
		r.mistakes = append(r.mistakes, fmt.Errorf("%s: %w", at.pointer, err))
	}
	return schema
}

func (r *reader) operation(method, path string, shared []parameter, at node) *operation {
	o := &operation{
		method: method, path: path,
		parameters: append(slices.Clone(shared), r.parameters(r.child(at, "parameters"))...),
		responses:  make(map[int]response),
	}
	if body := r.child(at, "requestBody"); body.value != nil {
		o.body = r.content(r.child(body, "content"))
	}
	responses := r.child(at, "responses")
	for _, name := range responses.names() {
		status, err := strconv.Atoi(name)
		if err != nil {
			r.mistakes = append(r.mistakes, fmt.Errorf("%s: %q is no status", responses.pointer, name))
		}
		o.responses[status] = r.response(r.child(responses, name))
	}
	return o
}

func (r *reader) parameters(at node) []parameter {
	list, _ := at.value.([]any)
	var parameters []parameter
	for place := range list {
		found := r.child(at, strconv.Itoa(place))
		parameters = append(parameters, parameter{
			name: found.text("name"), in: found.text("in"), required: found.isTrue("required"),
			schema: r.schema(r.child(found, "schema")),
		})
	}
	return parameters
}

func (r *reader) response(at node) response {
	if at.value == nil {
		r.mistakes = append(r.mistakes, fmt.Errorf("%s is missing", at.pointer))
	}
	headers := make(map[string]header)
	list := r.child(at, "headers")
	for _, name := range list.names() {
		found := r.child(list, name)
		headers[http.CanonicalHeaderKey(name)] = header{found.isTrue("required"), r.schema(r.child(found, "schema"))}
	}
	return response{headers, r.content(r.child(at, "content"))}
}

func (r *reader) content(at node) map[string]*jsonschema.Schema {
	content := make(map[string]*jsonschema.Schema)
	for _, mediaType := range at.names() {
		content[mediaType] = r.schema(r.child(at, mediaType, "schema"))
	}
	return content
}

// checkExamples looks everywhere for examples, which must be what they are
// examples of. The schemas of media types, parameters and headers are beside
// their example or examples; a schema has a list of its own.
func (r *reader) checkExamples(at node) {
	if list, ok := at.value.([]any); ok {
		for place := range list {
			r.checkExamples(node{at.pointer + "/" + strconv.Itoa(place), list[place]})
		}
	}
	object, ok := at.value.(map[string]any)
	if !ok {
		return
	}
	if _, ok := object["schema"]; ok {
		schema := r.schema(r.child(at, "schema"))
		if example, given := object["example"]; given {
			r.checkExample(at, schema, example)
		}
		examples := r.child(at, "examples")
		for _, name := range examples.names() {
			r.checkExample(at, schema, r.child(examples, name, "value").value)
		}
	} else if examples, ok := object["examples"].([]any); ok {
		schema := r.schema(at)
		for _, example := range examples {
			r.checkExample(at, schema, example)
		}
	}
	for name, value := range object {
		if name != "example" && name != "examples" {
			escaped := strings.ReplaceAll(strings.ReplaceAll(name, "~", "~0"), "/", "~1")
			r.checkExamples(node{at.pointer + "/" + escaped, value})
		}
	}
}

func (r *reader) checkExample(at node, schema *jsonschema.Schema, example any) {
	if schema == nil {
		return // said already
	}
	if err := schema.Validate(example); err != nil {
		r.mistakes = append(r.mistakes, fmt.Errorf("%s has a wrong example: %w", at.pointer, err))
	}
}
