package config

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A field is a documented setting: nothing of its description is missing.
func TestEverySettingIsDescribed(t *testing.T) {
	t.Parallel()
	loader := newLoader(Options{})
	require.Empty(t, loader.problems, "defaults are readable")
	seen := map[string]bool{}
	for _, setting := range loader.settings {
		require.False(t, strings.HasSuffix(setting.key, "."), "a field without a key after %s", setting.key)
		require.False(t, seen[setting.variable], setting.variable)
		seen[setting.variable] = true
		require.Equal(t, "PUSHQ_"+strings.ToUpper(strings.ReplaceAll(setting.key, ".", "_")), setting.variable)
		require.Regexp(t, `^[A-Z].*\.$`, setting.doc, "%s has a sentence", setting.key)
		require.NotContains(t, setting.doc+setting.allowed, "|", "%s fits into a table", setting.key)
		require.Equal(t, setting.min == "", setting.max == "", "%s has both borders or none", setting.key)
		require.Empty(t, outOfRange(setting), setting.key)
	}
}

// A rule about a key that does not exist would never be checked.
func TestRulesNameSettings(t *testing.T) {
	t.Parallel()
	loader := newLoader(Options{})
	for _, rule := range rules {
		for _, key := range rule.keys {
			_, known := loader.setting(key)
			require.True(t, known, key)
		}
	}
}
