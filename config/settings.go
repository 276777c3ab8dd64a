package config

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"
)

// variablePrefix starts the name of every environment variable of pushq.
const variablePrefix = "PUSHQ_"

// setting is one field of Config with what its tags say.
type setting struct {
	key         string // with its sections: swrve.delayMillis
	variable    string // environment variable: PUSHQ_SWRVE_DELAYMILLIS
	defaultText string
	unit        string
	min, max    string // both or none
	allowed     string
	example     string // of a map or list
	doc         string
	field       reflect.Value // settable
}

// settingsOf lists the settings of c in the order of their fields.
func settingsOf(c *Config) []setting {
	return appendSettings(nil, reflect.ValueOf(c).Elem(), "")
}

func appendSettings(list []setting, section reflect.Value, prefix string) []setting {
	for description, field := range section.Fields() {
		key := prefix + description.Tag.Get("key")
		if field.Kind() == reflect.Struct {
			list = appendSettings(list, field, key+".")
			continue
		}
		list = append(list, setting{
			key:         key,
			variable:    variablePrefix + strings.ToUpper(strings.ReplaceAll(key, ".", "_")),
			defaultText: description.Tag.Get("default"),
			unit:        description.Tag.Get("unit"),
			min:         description.Tag.Get("min"),
			max:         description.Tag.Get("max"),
			allowed:     description.Tag.Get("allowed"),
			example:     description.Tag.Get("example"),
			doc:         description.Tag.Get("doc"),
			field:       field,
		})
	}
	return list
}

// text is the value as it is written in an environment variable, without secrets.
func (s setting) text() string {
	switch value := s.field.Interface().(type) {
	case time.Duration:
		return durationText(value)
	case float64:
		return strconv.FormatFloat(value, 'f', -1, 64)
	}
	switch s.field.Kind() {
	case reflect.Map, reflect.Slice:
		return jsonText(s.field.Interface())
	default:
		return fmt.Sprint(s.field.Interface())
	}
}

// durationText writes 5m where Duration.String writes 5m0s.
func durationText(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

func jsonText(value any) string {
	var text strings.Builder
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return "not printable: " + err.Error()
	}
	return strings.TrimSuffix(text.String(), "\n")
}
