package serviceaccount

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// On its way through variables and templates a key loses its line breaks in many ways.
// All of them read as what Google Cloud has written.
func TestBrokenLineBreaksOfAKeyAreMended(t *testing.T) {
	t.Parallel()
	key, err := rsa.GenerateKey(rand.Reader, 1024)
	require.NoError(t, err)
	encoded, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	good := string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: encoded}))
	file := func(privateKey string) string {
		text, err := json.MarshalIndent(map[string]string{"type": "service_account", "client_email": "a@b", "private_key": privateKey}, "", "  ")
		require.NoError(t, err)
		return string(text)
	}
	for name, written := range map[string]string{
		"as it was":               file(good),
		"escaped twice":           file(strings.ReplaceAll(good, "\n", `\n`)),
		"of Windows":              file(strings.ReplaceAll(good, "\n", "\r\n")),
		"of Windows, escaped":     file(strings.ReplaceAll(good, "\n", `\r\n`)),
		"blanks":                  file(strings.ReplaceAll(good, "\n", " ")),
		"none":                    file(strings.ReplaceAll(good, "\n", "")),
		"blanks at the beginning": file(strings.ReplaceAll(good, "\n", "\n    ")),
		"not escaped in JSON":     strings.ReplaceAll(file(good), `\n`, "\n"),
		"of Windows in JSON":      strings.ReplaceAll(strings.ReplaceAll(file(good), `\n`, "\n"), "\n", "\r\n"),
	} {
		account, err := Read([]byte(written))
		require.NoError(t, err, name)
		require.Equal(t, good, account.PrivateKey, name)
	}
	for name, written := range map[string]string{
		"no PEM":             file("secret"),
		"cut":                file(good[:200]),
		"a letter of others": file(strings.Replace(good, "M", "!", 1)),
	} {
		_, err := Read([]byte(written))
		require.ErrorContains(t, err, "private_key", name)
		require.NotContains(t, err.Error(), "secret")
	}
}
