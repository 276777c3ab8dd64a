package tasks

import (
	"encoding/base64"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestACursorComesBackAsItWas(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		score := rapid.Float64Range(-math.MaxFloat64, math.MaxFloat64)
		anyPosition := rapid.Custom(func(t *rapid.T) position {
			result := position{Skip: rapid.Int64Range(0, maxSkip).Draw(t, "skip")}
			if rapid.Bool().Draw(t, "has a score") {
				value := score.Draw(t, "score")
				result.Score = &value
			}
			return result
		})
		positions := rapid.SliceOfN(anyPosition, 1, 4).Draw(t, "positions")
		state := rapid.SampledFrom(States()).Draw(t, "state")
		text := encodeCursor(FCM, state, positions)
		require.NotContains(t, text, "=")
		got, err := decodeCursor(text, FCM, state, len(positions))
		require.NoError(t, err)
		require.Equal(t, positions, got)
	})
}

func TestAnEmptyCursorIsTheStart(t *testing.T) {
	t.Parallel()
	positions, err := decodeCursor("", Swrve, Sent, 2)
	require.NoError(t, err)
	require.Equal(t, []position{{}, {}}, positions)
}

func TestForgedCursors(t *testing.T) {
	t.Parallel()
	encoded := func(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }
	whole := encoded(`{"channel":"swrve","state":"SENT","positions":[{},{}]}`)
	_, err := decodeCursor(whole, Swrve, Sent, 2)
	require.NoError(t, err)
	for name, text := range map[string]string{
		"no base64":           "***",
		"padded":              whole + "==",
		"a line end in it":    whole[:4] + "\n" + whole[4:],
		"no JSON":             encoded("hello"),
		"nothing":             encoded(" "),
		"null":                encoded("null"),
		"an array":            encoded("[]"),
		"cut off":             whole[:20],
		"more after the JSON": encoded(`{"channel":"swrve","state":"SENT","positions":[{},{}]} {}`),
		"an unknown field":    encoded(`{"channel":"swrve","state":"SENT","positions":[{},{"hop":1}]}`),
		"another channel":     encoded(`{"channel":"fcm","state":"SENT","positions":[{},{}]}`),
		"no channel":          encoded(`{"state":"SENT","positions":[{},{}]}`),
		"another state":       encoded(`{"channel":"swrve","state":"FAILED","positions":[{},{}]}`),
		"too few positions":   encoded(`{"channel":"swrve","state":"SENT","positions":[{}]}`),
		"too many positions":  encoded(`{"channel":"swrve","state":"SENT","positions":[{},{},{}]}`),
		"negative skip":       encoded(`{"channel":"swrve","state":"SENT","positions":[{},{"skip":-1}]}`),
		"large skip":          encoded(`{"channel":"swrve","state":"SENT","positions":[{},{"skip":10000001}]}`),
		"skip beyond int64":   encoded(`{"channel":"swrve","state":"SENT","positions":[{},{"skip":99999999999999999999}]}`),
		"a fractional skip":   encoded(`{"channel":"swrve","state":"SENT","positions":[{},{"skip":1.5}]}`),
		"infinite score":      encoded(`{"channel":"swrve","state":"SENT","positions":[{},{"score":1e999}]}`),
		"a score of text":     encoded(`{"channel":"swrve","state":"SENT","positions":[{},{"score":"+inf"}]}`),
		"huge":                strings.Repeat("A", 1<<20),
	} {
		_, err := decodeCursor(text, Swrve, Sent, 2)
		require.ErrorIs(t, err, ErrCursor, name)
	}
}

func TestNoTextMakesDecodingFailOtherwise(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.Map(rapid.String(), func(inner string) string {
			return base64.RawURLEncoding.EncodeToString([]byte(inner))
		})).Draw(t, "text")
		positions, err := decodeCursor(text, Swrve, Retry, 2)
		if err != nil {
			require.ErrorIs(t, err, ErrCursor)
			return
		}
		require.Len(t, positions, 2)
	})
}
