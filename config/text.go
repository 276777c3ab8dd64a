package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"

	"go.yaml.in/yaml/v3"
)

// textNode brings a value given as text, by a variable or on the command line,
// into the form of one in the file: maps and lists are JSON, everything else is
// taken as it stands. Errors quote nothing of the text.
func textNode(text string, target reflect.Value) (*yaml.Node, error) {
	switch target.Kind() {
	case reflect.Map, reflect.Slice:
		return jsonNode(text)
	default:
		return stringNode(text), nil
	}
}

func stringNode(text string) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: text}
}

// jsonNode reads one JSON value. The tokens are turned into nodes one by one,
// because encoding/json would drop all but the last of equal names.
func jsonNode(text string) (*yaml.Node, error) {
	var raw json.RawMessage
	if err := json.Unmarshal([]byte(text), &raw); err != nil {
		// The error's own text quotes a character, which may be one of a secret.
		var syntax *json.SyntaxError
		if errors.As(err, &syntax) {
			return nil, fmt.Errorf("is not valid JSON (at byte %d)", syntax.Offset)
		}
		return nil, errors.New("is not valid JSON")
	}
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	return nextNode(decoder)
}

func nextNode(decoder *json.Decoder) (*yaml.Node, error) {
	token, err := decoder.Token()
	if err != nil {
		return nil, errors.New("is not valid JSON")
	}
	switch token := token.(type) {
	case json.Delim:
		node := &yaml.Node{Kind: yaml.MappingNode}
		if token == '[' {
			node.Kind = yaml.SequenceNode
		}
		for decoder.More() {
			child, err := nextNode(decoder)
			if err != nil {
				return nil, err
			}
			node.Content = append(node.Content, child)
		}
		_, err := decoder.Token() // the closing bracket
		return node, err
	case nil:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null"}, nil
	default:
		return stringNode(fmt.Sprint(token)), nil
	}
}

// yamlNode reads the one document of a YAML file; nil if the file is empty.
func yamlNode(content []byte) (*yaml.Node, error) {
	decoder := yaml.NewDecoder(bytes.NewReader(content))
	var document yaml.Node
	if err := decoder.Decode(&document); errors.Is(err, io.EOF) {
		return nil, nil
	} else if err != nil {
		return nil, yamlError(content, err)
	}
	if err := decoder.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return nil, errors.New("holds more than one YAML document (a line ---); only one is supported")
	}
	return document.Content[0], nil
}

func yamlError(content []byte, err error) error {
	if line := tabbedLine(content); line > 0 {
		return fmt.Errorf("is not valid YAML: line %d is indented by a tab, where YAML wants blanks", line)
	}
	// This one text of the library quotes a value: a secret that starts with *.
	if strings.Contains(err.Error(), "unknown anchor") {
		return errors.New("a value that starts with * must be in quotes")
	}
	// The library's line is that of the mistake or of what it is a part of.
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	return errors.New("is not valid YAML: " + strings.Replace(text, "line ", "near line ", 1))
}

// tabbedLine is the number of the first line that is indented by a tab, 0 if there is none.
func tabbedLine(content []byte) int {
	number := 0
	for line := range bytes.Lines(content) {
		number++
		indent := line[:len(line)-len(bytes.TrimLeft(line, " \t"))]
		if bytes.IndexByte(indent, '\t') >= 0 && len(bytes.TrimSpace(line)) > 0 {
			return number
		}
	}
	return 0
}
