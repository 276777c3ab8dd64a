package swrvesim

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestReadKeys(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, text string
		keys       []string
		problem    string
	}{
		{"keys and comments", "# IOS\nAAA\r\n\n  BBB  \n  # ANDROID\nCCC", []string{"AAA", "BBB", "CCC"}, ""},
		{"comment behind a key", "AAA\nBBB # note\n", nil, "line 2"},
		{"no keys", "# none yet\n\n", nil, "has none"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "keys")
			require.NoError(t, os.WriteFile(path, []byte(test.text), 0o600))
			keys, err := ReadKeys(path)
			if test.problem == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, test.problem)
				require.NotContains(t, err.Error(), "BBB")
			}
			require.Equal(t, test.keys, keys)
		})
	}
	_, err := ReadKeys(filepath.Join(t.TempDir(), "absent"))
	require.ErrorIs(t, err, os.ErrNotExist)
}
