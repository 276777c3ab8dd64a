package history

import (
	"bytes"
	"errors"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"pushq/tasks"
)

// replacement stands for what PostgreSQL refuses in a text.
const replacement = "\uFFFD"

// storable is the text without U+0000 and bytes that are no UTF-8, which PostgreSQL
// refuses.
func storable(text string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(text, replacement), "\x00", replacement)
}

// asciiText is the text with everything but ASCII written as \u00e9, which PostgreSQL takes
// whatever the encoding of the database is.
func asciiText(text string) string {
	var ascii strings.Builder
	for _, character := range storable(text) {
		if character < utf8.RuneSelf {
			ascii.WriteRune(character)
		} else {
			ascii.WriteString(strings.Trim(strconv.QuoteToASCII(string(character)), `"`))
		}
	}
	return ascii.String()
}

// storableJSON is JSON without what jsonb refuses: in texts U+0000 and halves of surrogate
// pairs, and numbers that numeric has no room for, which become texts. Nothing stays
// nothing.
func storableJSON(value []byte) ([]byte, error) {
	if len(value) == 0 {
		return nil, nil
	}
	lenient := jsontext.AllowDuplicateNames(true)
	decoder := jsontext.NewDecoder(bytes.NewReader(value), lenient, jsontext.AllowInvalidUTF8(true))
	var stored bytes.Buffer
	encoder := jsontext.NewEncoder(&stored, lenient)
	for {
		token, err := decoder.ReadToken()
		if errors.Is(err, io.EOF) {
			return bytes.TrimSpace(stored.Bytes()), nil
		}
		if err != nil {
			return nil, err
		}
		switch token.Kind() {
		case '"':
			token = jsontext.String(storable(token.String()))
		case '0':
			if number := token.String(); !storableNumber(number) {
				token = jsontext.String(number)
			}
		}
		if err := encoder.WriteToken(token); err != nil {
			return nil, err
		}
	}
}

// storableNumber reports whether numeric takes the number: it has room for 131,072 digits
// before the point and 16,383 behind it. What does not fit a float64 is not meant as a
// number.
func storableNumber(number string) bool {
	const digits, exponents = 400, 308
	_, exponent, _ := strings.Cut(strings.ToLower(number), "e")
	if exponent == "" {
		return len(number) <= digits
	}
	power, err := strconv.Atoi(exponent)
	return err == nil && -exponents <= power && power <= exponents && len(number) <= digits
}

// What is absent is NULL.

func textOrNull(text string) *string {
	if text == "" {
		return nil
	}
	text = storable(text)
	return &text
}

func numberOrNull(number int) *int {
	if number == 0 {
		return nil
	}
	return &number
}

func timeOrNull(instant tasks.Millis) *time.Time {
	if instant == 0 {
		return nil
	}
	at := instant.Time()
	return &at
}
