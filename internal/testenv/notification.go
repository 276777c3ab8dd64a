package testenv

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Notification returns a message of the channel fcm as its senders write it, with fields
// replaced or added: name and JSON in turn; "" leaves the field out.
func Notification(replaced ...string) []byte {
	fields := map[string]string{
		"trace_id":          `"a3f5b9c1-2d4e-4a5f-9b2c-7e8d9f1a2b3c"`,
		"idempotency_key":   `"notif_8f3d9a1c2b4e5f6a7b8c9d0e1f2a3b4c"`,
		"user_id":           `"550e8400-e29b-41d4-a716-446655440000"`,
		"notification_type": `"push"`,
		"recipient":         `"fcm_device_token_xyz123"`,
		"template_code":     `"welcome_notification"`,
		"variables":         `{"name":"Ada","link":"https://example.com/welcome"}`,
		"language":          `"en"`,
		"metadata":          `{}`,
	}
	for place := 0; place < len(replaced); place += 2 {
		fields[replaced[place]] = replaced[place+1]
	}
	var members []string
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if fields[name] != "" {
			members = append(members, fmt.Sprintf("%q:%s", name, fields[name]))
		}
	}
	return []byte("{" + strings.Join(members, ",") + "}")
}

// NotificationTo returns a message to a device; trace, idempotency key and user are named
// after the device.
func NotificationTo(device string) string {
	return string(Notification("trace_id", strconv.Quote("trace-"+device), "idempotency_key", strconv.Quote("key-"+device),
		"user_id", strconv.Quote("user-"+device), "recipient", strconv.Quote(device)))
}

// A BadMessage is one that no notification can be made of.
type BadMessage struct {
	Name    string
	Body    []byte
	Field   string // the only one that is wrong; "" for the message as a whole
	Problem string // part of what is said of it
}

// BadMessages are what careless senders, and hostile ones, may send instead of a
// notification. Each has one fault.
func BadMessages() []BadMessage {
	var all []BadMessage
	field := func(name, value, problem string) {
		all = append(all, BadMessage{fmt.Sprintf("%s is %.40s", name, value), Notification(name, value), name, problem})
	}
	whole := func(name, body, problem string) {
		all = append(all, BadMessage{name, []byte(body), "", problem})
	}
	const tooLarge = "is larger than 65536 bytes"
	texts := []string{"trace_id", "idempotency_key", "user_id", "notification_type", "recipient", "template_code", "language"}
	for _, name := range append(slices.Clone(texts), "variables", "metadata") {
		field(name, "", "is missing")
		for _, other := range []string{"1", "true", "[]", `["a"]`} {
			field(name, other, "must be")
		}
		whole(name+" of a megabyte", string(Notification(name, `"`+strings.Repeat("x", 1<<20)+`"`)), tooLarge)
	}
	for _, name := range texts {
		field(name, "null", "must be a text")
		field(name, "{}", "must be a text")
		field(name, `""`, map[bool]string{true: "must be", false: "is empty"}[name == "notification_type"])
		for _, other := range []string{strings.Repeat("x", 5000), "a b", `a\u0000`, "é", " "} {
			field(name, `"`+other+`"`, "must")
		}
	}
	field("notification_type", `"email"`, `must be "push"`)
	field("notification_type", `"PUSH"`, `must be "push"`)
	field("recipient", `"a token"`, "must have visible ASCII characters only, and no blanks")
	field("recipient", `"token\r\nX-Header: 1"`, "must have visible ASCII characters only, and no blanks")
	field("template_code", `"../admin"`, "must be made of letters")
	field("template_code", `"a?language=de"`, "must be made of letters")
	field("language", `"en&x"`, "must be made of letters")
	field("language", `"en.US"`, "must be made of letters")
	field("variables", `"text"`, "must be an object")
	const wrongVariables = "must be texts, numbers, true, false or null: "
	field("variables", `{"a":{"b":"c"}}`, wrongVariables+`"a"`)
	field("variables", `{"b":[],"a":{},"c":"fine","d":null}`, wrongVariables+`"a", "b"`)
	field("variables", `{"`+strings.Repeat("n", 5000)+`":[]}`, wrongVariables+`"nnn`)
	field("variables", variables(1001), "has 1001 variables, more than 1000")
	field("metadata", `"text"`, "must be an object")
	whole("10,000 variables", string(Notification("variables", variables(10_000))), tooLarge)

	const noJSON, notOne, tooDeep = "is not JSON", "is not one JSON object", "is nested more than 32 deep"
	good := string(Notification())
	whole("nothing", "", "is not")
	whole("blanks", " \r\n\t ", "is not")
	whole("null", "null", notOne)
	whole("a number", "1", notOne)
	whole("a text", `"text"`, notOne)
	whole("an array", "["+good+"]", notOne)
	whole("a word", "hello", noJSON)
	whole("a form", "recipient=a&template_code=b", noJSON)
	whole("XML", "<message/>", noJSON)
	whole("cut off", good[:len(good)/2], noJSON)
	whole("a second value", good+" {}", notOne)
	whole("more behind it", good+"x", noJSON)
	whole("a comma too many", strings.TrimSuffix(good, "}")+",}", noJSON)
	whole("no number", string(Notification("metadata", `{"a":NaN}`)), noJSON)
	whole("a field twice", strings.TrimSuffix(good, "}")+`,"recipient":"another"}`, noJSON)
	whole("a nested name twice", string(Notification("metadata", `{"a":1,"a":2}`)), noJSON)
	whole("UTF-16", strings.Join(strings.Split(good, ""), "\x00")+"\x00", noJSON)
	whole("no UTF-8", string(Notification("metadata", "{\"a\":\"\xff\"}")), noJSON)
	whole("half a surrogate pair", string(Notification("metadata", `{"a":"\ud800"}`)), noJSON)
	whole("NUL characters", strings.Repeat("\x00", 100), noJSON)
	whole("a NUL character in a text", string(Notification("metadata", "{\"a\":\"\x00\"}")), noJSON)
	whole("a megabyte of NUL characters", strings.Repeat("\x00", 1<<20), tooLarge)
	whole("compressed", "\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\xff\xab\xae\x05\x00\x43\xbf\xa6\xa3\x02\x00\x00\x00", noJSON)
	whole("too deep", string(Notification("metadata", strings.Repeat(`{"a":`, 40)+"1"+strings.Repeat("}", 40))), tooDeep)
	whole("much too deep", strings.Repeat("[", 60_000), tooDeep)
	return all
}

func variables(count int) string {
	members := make([]string, count)
	for number := range members {
		members[number] = fmt.Sprintf(`"v%d":1`, number)
	}
	return "{" + strings.Join(members, ",") + "}"
}
