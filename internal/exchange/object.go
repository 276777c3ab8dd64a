package exchange

import (
	"bytes"
	"encoding/json"
)

// An Object is a JSON object in an answer. It is read field by field, so that one of an
// unexpected type hides no other: what is known of it is read, and the rest is not looked
// at.
type Object map[string]json.RawMessage

// Text is the body without blanks around it, and without a byte order mark before it.
func (a Answer) Text() []byte {
	return bytes.TrimSpace(bytes.TrimPrefix(bytes.TrimSpace(a.Body), []byte("\ufeff")))
}

// Object is the body, if that is a JSON object as a whole: no page, no other text, no JSON
// of another kind or without its end.
func (a Answer) Object() (Object, bool) { return objectOf(a.Text()) }

// Text is the text in a field, "" if there is none.
func (o Object) Text(name string) string {
	var text string
	if json.Unmarshal(o[name], &text) != nil {
		return ""
	}
	return text
}

// Number is the number in a field. A text that has one is none.
func (o Object) Number(name string) (number json.Number, found bool) {
	// A json.Number takes a text too, and null.
	if value := o[name]; len(value) == 0 || value[0] != '-' && (value[0] < '0' || value[0] > '9') {
		return "", false
	}
	return json.Number(o[name]), true
}

// Object is the object in a field, nil if there is none.
func (o Object) Object(name string) Object {
	object, _ := objectOf(o[name])
	return object
}

// Objects are the objects in a field that has a list of them, or a single one. What else
// is in the list is left out.
func (o Object) Objects(name string) []Object {
	if single, found := objectOf(o[name]); found {
		return []Object{single}
	}
	values, _ := ListOf(o[name])
	var objects []Object
	for _, value := range values {
		if object, found := objectOf(value); found {
			objects = append(objects, object)
		}
	}
	return objects
}

// Says reports whether there is something in a field: not null, false, 0, nor an empty
// text, list or object.
func (o Object) Says(name string) bool {
	switch string(bytes.Join(bytes.Fields(o[name]), nil)) {
	case "", "null", "false", "0", `""`, "[]", "{}":
		return false
	default:
		return true
	}
}

// ListOf is the JSON list that a text is.
func ListOf(text []byte) (values []json.RawMessage, isList bool) {
	err := json.Unmarshal(text, &values)
	return values, err == nil && values != nil
}

func objectOf(text []byte) (object Object, isObject bool) {
	err := json.Unmarshal(text, &object)
	return object, err == nil && object != nil
}
