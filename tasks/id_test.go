package tasks

import (
	"regexp"
	"sort"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

var crockford = regexp.MustCompile(`^[0-7][0-9A-HJKMNP-TV-Z]{25}$`)

// It is not parallel: ids of one millisecond are in order only if nobody else makes some
// meanwhile for the next one.
func TestIDsAreFreshAndSorted(t *testing.T) {
	ids := make([]string, 10_000)
	seen := map[string]bool{}
	for place := range ids {
		ids[place] = NewID()
		require.Regexp(t, crockford, ids[place])
		require.True(t, ValidID(ids[place]))
		require.False(t, seen[ids[place]])
		seen[ids[place]] = true
	}
	require.True(t, sort.StringsAreSorted(ids))
}

func TestAKeyedIDDependsOnCallerAndKeyAlone(t *testing.T) {
	t.Parallel()
	require.Equal(t, KeyedID("shop", "order-1"), KeyedID("shop", "order-1"))
	ids := map[string]bool{}
	for _, pair := range [][2]string{
		{"shop", "order-1"}, {"shop", "order-2"}, {"bank", "order-1"}, {"", "order-1"}, {"order-1", ""},
		{"shopo", "rder-1"}, {"sho", "porder-1"}, {"shop", "ORDER-1"}, {"", ""},
	} {
		id := KeyedID(pair[0], pair[1])
		require.Regexp(t, crockford, id)
		require.True(t, ValidID(id))
		require.False(t, ids[id], "%q", pair)
		ids[id] = true
	}
	// Callers repeat their POST for weeks: the form must not change.
	require.Equal(t, "4WGQ8K6KH3P34BJETQK36Y7NFZ", KeyedID("shop", "order-1"))
}

func TestEveryKeyedIDIsValid(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		require.True(t, ValidID(KeyedID(rapid.String().Draw(t, "caller"), rapid.String().Draw(t, "key"))))
	})
}

func TestValidID(t *testing.T) {
	t.Parallel()
	id := "01M8FKQ944MZEQ408G8G9K98MC"
	require.True(t, ValidID(id))
	require.True(t, ValidID("00000000000000000000000000"))
	require.True(t, ValidID("7ZZZZZZZZZZZZZZZZZZZZZZZZZ"))
	for _, other := range []string{
		"", id[:25], id + "C", strings.ToLower(id), "01m8FKQ944MZEQ408G8G9K98MC", "8" + id[1:],
		id[:25] + "I", id[:25] + "L", id[:25] + "O", id[:25] + "U", id[:25] + "-", id[:25] + "/", id[:25] + " ", id[:25] + "\n",
		id[:24] + "Й", strings.Repeat("0", 300),
	} {
		require.False(t, ValidID(other), "%q", other)
	}
}
