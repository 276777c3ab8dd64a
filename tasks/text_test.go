package tasks

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// anyText is valid UTF-8 without NUL, with a liking for what JSON and Lua
// treat specially.
func anyText() *rapid.Generator[string] {
	special := rapid.SampledFrom([]string{
		"<>&", `\`, `"`, "'", "/", "\n", "\r", "\t", "\x7f", "\x01", "\x1b", "\u2028", "\u2029", "\ufeff", "\ufffd", "\U0010ffff",
		"👩‍👩‍👧", "Привет", "مرحبا", "null", "{}", "[]", `\u0041`, "%s", "1e400",
	})
	plain := rapid.Map(rapid.String(), func(text string) string {
		return strings.ReplaceAll(strings.ToValidUTF8(text, ""), "\x00", "")
	})
	return rapid.Map(rapid.SliceOfN(rapid.OneOf(special, plain), 0, 6), func(parts []string) string {
		return strings.Join(parts, "")
	})
}

func TestTextsComeBackUnchanged(t *testing.T) {
	onEachRedis(t, func(t *testing.T, client *redis.Client) {
		rapid.Check(t, func(check *rapid.T) {
			text := func(name string) string { return anyText().Draw(check, name) }
			s := newStory(t, client)
			s.t = check
			s.push.Message, s.push.PushKey, s.push.MessagePrototypeKey = text("message"), text("pushKey"), text("prototype")
			require.True(check, utf8.ValidString(s.push.Message))
			s.begun("a")
			millis := int64(7)
			first := Attempt{
				Token: "a", Status: AttemptError, StartedAt: MillisOf(time.Now()), Millis: &millis,
				ErrorType: ErrorOther, ErrorMessage: text("error"), StackTrace: text("stack"),
			}
			require.NoError(check, errorOf(s.records.Finish(s.ctx, s.push, first, "")))
			s.begun("b") // decodes and encodes the record once more
			record := s.record()
			require.Equal(check, s.push, record.Push)
			require.Equal(check, first, record.Attempts[0])
		})
	})
}
