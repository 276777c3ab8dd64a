package history

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

func TestStorableNumber(t *testing.T) {
	t.Parallel()
	for number, storable := range map[string]bool{
		"0": true, "-1.5E+10": true, "1e308": true, "1E-308": true, "1e309": false, "1e-309": false, "-1e999999": false,
		"1e99999999999999999999": false, strings.Repeat("9", 400): true, strings.Repeat("9", 401): false, "0." + strings.Repeat("1", 399): false,
	} {
		require.Equal(t, storable, storableNumber(number), number)
	}
}

// Whatever JSON comes, what is stored is JSON that has nothing in it that jsonb refuses, and
// is the same once more.
func FuzzStorableJSON(f *testing.F) {
	for _, seed := range []string{
		"", `{}`, `[]`, `null`, `"\u0000"`, `{"a\u0000":1,"a\ufffd":2}`, `"\ud83d"`, "\"\xff\"", `1e999`, `[1,-2.5e3,true,false,null,"<&>"]`, `{"a":{"b":[{}]}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, value []byte) {
		if len(value) > 0 && !json.Valid(value) {
			return
		}
		stored, err := storableJSON(value)
		if err != nil {
			require.Greater(t, len(value), 10_000, "too deep") // and nothing else
			return
		}
		if len(value) == 0 {
			require.Nil(t, stored)
			return
		}
		require.True(t, json.Valid(stored), "%s", stored)
		require.True(t, utf8.Valid(stored))
		require.NotContains(t, strings.ReplaceAll(string(stored), `\\`, ""), `\u0000`)
		again, err := storableJSON(stored)
		require.NoError(t, err)
		require.Equal(t, string(stored), string(again))
	})
}
