package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
)

// What a command shows of a notification, and what such a push does not have.
var (
	shownOfNotification = []string{"trace_id", "idempotency_key", "user_id", "notification_type", "template_code", "language"}
	notOfNotification   = []string{"platform", "messagePrototypeKey", "pushKey", "message", "cronExpression", "timeZone"}
)

// withoutTexts is a push as a command prints it: of one with a notification, without
// what is for the device only, and without the fields that are empty in all of them.
func withoutTexts(push json.RawMessage) (json.RawMessage, error) {
	var templated struct {
		Notification json.RawMessage `json:"notification"`
	}
	if err := json.Unmarshal(push, &templated); err != nil {
		return nil, fmt.Errorf("read the answer: %w", err)
	}
	if templated.Notification == nil {
		return push, nil
	}
	return members(push, func(name string, value jsontext.Value) (jsontext.Value, error) {
		switch {
		case slices.Contains(notOfNotification, name):
			return nil, nil
		case name != "notification":
			return value, nil
		}
		shown, err := members(json.RawMessage(value), func(name string, value jsontext.Value) (jsontext.Value, error) {
			if slices.Contains(shownOfNotification, name) {
				return value, nil
			}
			return nil, nil
		})
		return jsontext.Value(shown), err
	})
}

// members is an object with the values that choose returns, in the same order; nil
// leaves one out.
func members(object json.RawMessage, choose func(name string, value jsontext.Value) (jsontext.Value, error)) (json.RawMessage, error) {
	decoder := jsontext.NewDecoder(bytes.NewReader(object))
	chosen := []byte{'{'}
	if token, err := decoder.ReadToken(); err != nil || token.Kind() != '{' {
		return nil, fmt.Errorf("read the answer: %q is no object", object)
	}
	for decoder.PeekKind() == '"' {
		token, err := decoder.ReadToken()
		if err != nil {
			return nil, fmt.Errorf("read the answer: %w", err)
		}
		name := token.String()
		value, err := decoder.ReadValue()
		if err != nil {
			return nil, fmt.Errorf("read the answer: %w", err)
		}
		if value, err = choose(name, value); err != nil {
			return nil, err
		}
		if value == nil {
			continue
		}
		if len(chosen) > 1 {
			chosen = append(chosen, ',')
		}
		if chosen, err = jsontext.AppendQuote(chosen, name); err != nil {
			return nil, fmt.Errorf("read the answer: %w", err)
		}
		chosen = append(append(chosen, ':'), value...)
	}
	return append(chosen, '}'), nil
}
