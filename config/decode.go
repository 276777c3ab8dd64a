package config

import (
	"encoding"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"time"

	"go.yaml.in/yaml/v3"
)

// A reportFunc takes what is wrong with a value: where it stands, its key with
// the entry of a map or list in brackets, and what is wrong.
type reportFunc func(place *yaml.Node, path, text string)

// decode writes the value of node to target, which must be settable. Scalars
// are read by their text, whether quoted or not, so that nothing of a push key
// such as 0123 is lost. Texts never repeat a secret.
func decode(node *yaml.Node, target reflect.Value, path string, report reportFunc) {
	node = followAlias(node)
	switch target.Kind() {
	case reflect.Map:
		decodeMap(node, target, path, report)
	case reflect.Slice:
		decodeList(node, target, path, report)
	default:
		if err := decodeScalar(node, target); err != nil {
			report(node, path, err.Error())
		}
	}
}

func decodeMap(node *yaml.Node, target reflect.Value, path string, report reportFunc) {
	target.Set(reflect.MakeMap(target.Type()))
	if isNull(node) {
		return
	}
	if node.Kind != yaml.MappingNode {
		report(node, path, "needs a mapping of names to values, found "+kindName(node))
		return
	}
	entryPath := func(name string) string { return fmt.Sprintf("%s[%q]", path, name) }
	if target.Type().Elem() == reflect.TypeFor[Secret]() {
		entryPath = func(name string) string { return fmt.Sprintf("%s[%s]", path, shownName(name)) }
	}
	for _, entry := range entriesOf(node, path, entryPath, report) {
		value := reflect.New(target.Type().Elem()).Elem()
		decode(entry.value, value, entryPath(entry.name), report)
		target.SetMapIndex(reflect.ValueOf(entry.name), value)
	}
}

func decodeList(node *yaml.Node, target reflect.Value, path string, report reportFunc) {
	if node.Kind != yaml.SequenceNode {
		report(node, path, "needs a list, found "+kindName(node))
		return
	}
	list := reflect.MakeSlice(target.Type(), len(node.Content), len(node.Content))
	for i, element := range node.Content {
		decode(element, list.Index(i), fmt.Sprintf("%s[%d]", path, i), report)
	}
	target.Set(list)
}

func decodeScalar(node *yaml.Node, target reflect.Value) error {
	switch {
	case isNull(node):
		return errors.New("has no value: give it one, or remove it")
	case node.Kind != yaml.ScalarNode:
		return errors.New("needs " + typeName(target) + ", found " + kindName(node))
	case node.Style&yaml.TaggedStyle != 0:
		return errors.New("has a YAML tag (a word that starts with !), which is not supported")
	}
	return parseScalar(node.Value, target)
}

// parseScalar reads the text of one value into target.
func parseScalar(text string, target reflect.Value) error {
	if reader, ok := target.Addr().Interface().(encoding.TextUnmarshaler); ok {
		return reader.UnmarshalText([]byte(text))
	}
	var err error
	switch field := target.Addr().Interface().(type) {
	case *time.Duration:
		*field, err = time.ParseDuration(text)
	case *bool:
		*field = text == "true"
		if text != "true" && text != "false" {
			err = strconv.ErrSyntax
		}
	case *int, *int64:
		var number int64
		number, err = strconv.ParseInt(text, 10, target.Type().Bits())
		target.SetInt(number)
	case *float64:
		*field, err = strconv.ParseFloat(text, 64)
	default: // texts and secrets
		target.SetString(text)
	}
	if err != nil {
		return fmt.Errorf("needs %s, found %.40q", typeName(target), text)
	}
	return nil
}

// typeName says what a scalar has to be.
func typeName(target reflect.Value) string {
	switch target.Interface().(type) {
	case time.Duration:
		return "a duration such as 90s, 5m or 24h"
	case bool:
		return "true or false"
	case int, int64:
		return "a whole number"
	case float64:
		return "a number"
	case Pollers:
		return "auto or a whole number"
	default:
		return "a text"
	}
}

func kindName(node *yaml.Node) string {
	switch {
	case isNull(node):
		return "no value"
	case node.Kind == yaml.MappingNode:
		return "a mapping"
	case node.Kind == yaml.SequenceNode:
		return "a list"
	default:
		return "a single value"
	}
}

func isNull(node *yaml.Node) bool {
	return node.Kind == yaml.ScalarNode && node.ShortTag() == "!!null"
}

func followAlias(node *yaml.Node) *yaml.Node {
	if node.Kind == yaml.AliasNode {
		return node.Alias
	}
	return node
}

// entry is one name of a mapping, with where it stands and its value.
type entry struct {
	name  string
	key   *yaml.Node
	value *yaml.Node
}

// entriesOf lists the mapping at path in its order. A name that stands there
// twice is reported and listed once.
func entriesOf(mapping *yaml.Node, path string, entryPath func(name string) string, report reportFunc) []entry {
	list := make([]entry, 0, len(mapping.Content)/2)
	firstLine := map[string]int{}
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		key, value := followAlias(mapping.Content[i]), mapping.Content[i+1]
		if key.Kind != yaml.ScalarNode || isNull(key) {
			report(mapping.Content[i], path, "has an entry whose name is not a text")
			continue
		}
		if key.ShortTag() == "!!merge" {
			report(key, entryPath(key.Value), "is a YAML merge, which is not supported: write the entries out")
			continue
		}
		if line, seen := firstLine[key.Value]; seen {
			text := "is set twice"
			if line > 0 {
				text += fmt.Sprintf("; the first time in line %d", line)
			}
			report(key, entryPath(key.Value), text)
			continue
		}
		firstLine[key.Value] = key.Line
		list = append(list, entry{key.Value, key, value})
	}
	return list
}
