package quartz

import (
	"fmt"
	"strings"
)

// field describes one field of an expression and reads lists of values.
type field struct {
	name      string
	low, high int
	// names are the full names of the values from low on, in upper case; the
	// first three letters are enough.
	names []string
	// wraps allows ranges that run over the end, such as 22-6.
	wraps bool
}

var (
	monthNames = []string{"JANUARY", "FEBRUARY", "MARCH", "APRIL", "MAY", "JUNE", "JULY",
		"AUGUST", "SEPTEMBER", "OCTOBER", "NOVEMBER", "DECEMBER"}
	weekdayNames = []string{"SUNDAY", "MONDAY", "TUESDAY", "WEDNESDAY", "THURSDAY", "FRIDAY", "SATURDAY"}
)

// list reads items separated by commas and adds their values. Items are *,
// a, a-b, NAME, NAME-NAME, and with a step of n: */n, a/n (a to the highest
// value), a-b/n.
func (f field) list(text string, add func(value int)) error {
	for item := range strings.SplitSeq(text, ",") {
		if err := f.item(item, add); err != nil {
			return err
		}
	}
	return nil
}

func (f field) item(item string, add func(value int)) error {
	values, stepText, hasStep := strings.Cut(item, "/")
	fromText, toText, isRange := strings.Cut(values, "-")
	switch {
	case item == "":
		return f.errorf("an item of the list is empty")
	case values == "":
		return f.errorf("%q has no start: write */%s", item, stepText)
	case hasStep && f.isName(fromText):
		return f.errorf("%q: a step needs numbers, not names", item)
	case isRange && f.isName(fromText) != f.isName(toText):
		return f.errorf("%q: a range needs two numbers or two names", item)
	}

	step := 1
	if hasStep {
		// Only a range may be shorter than its step.
		highest := f.high
		if isRange {
			highest = maxNumber
		}
		var err error
		if step, err = f.number(stepText, 1, highest); err != nil {
			return err
		}
	}
	if values == "*" {
		f.addRange(f.low, f.high, step, add)
		return nil
	}

	from, err := f.value(fromText)
	if err != nil {
		return err
	}
	to := from
	switch {
	case isRange:
		if to, err = f.value(toText); err != nil {
			return err
		}
		if to < from && !f.wraps {
			return f.errorf("the range %q runs backwards", values)
		}
	case hasStep:
		to = f.high
	}
	f.addRange(from, to, step, add)
	return nil
}

// addRange adds every step-th value; a range with to < from runs over the
// field's end.
func (f field) addRange(from, to, step int, add func(value int)) {
	span := f.high - f.low + 1
	length := (to-from+span)%span + 1
	for i := 0; i < length; i += step {
		add(f.low + (from-f.low+i)%span)
	}
}

// value reads a number or a name.
func (f field) value(text string) (int, error) {
	for i, name := range f.names {
		if text == name || text == name[:3] {
			return f.low + i, nil
		}
	}
	return f.number(text, f.low, f.high)
}

func (f field) isName(text string) bool {
	return f.names != nil && text != "" && text[0] >= 'A' && text[0] <= 'Z'
}

// maxNumber is the largest number that is read at all.
const maxNumber = 9999

func (f field) number(text string, low, high int) (int, error) {
	if text == "" {
		return 0, f.errorf("a number is missing")
	}
	value := 0
	for _, digit := range []byte(text) {
		if digit < '0' || digit > '9' {
			return 0, f.errorf("%q is not understood", text)
		}
		value = min(value*10+int(digit-'0'), maxNumber+1)
	}
	if value < low || value > high {
		return 0, f.errorf("%s is not in the range %d to %d", text, low, high)
	}
	return value, nil
}

func (f field) errorf(format string, arguments ...any) error {
	return &ParseError{Field: f.name, Reason: fmt.Sprintf(format, arguments...)}
}
