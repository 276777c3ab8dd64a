package main

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pushq/internal/testenv"
)

// What the simulator does is tested where it is. Here it is a program with a key file.
func TestSimFCM(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "account.json")
	keys := map[string]bool{}
	for range 2 {
		sim := testenv.StartProgram(t, testenv.BinaryWithoutRace(t), []string{
			"sim", "fcm", "--listen", "127.0.0.1:0", "--service-account", file, "--server-key", "the-key", "--latency", "0s",
		})
		base := sim.URL() // once it listens, the file is there
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		var account map[string]string
		require.NoError(t, json.Unmarshal(text, &account))
		require.Equal(t, base+"/token", account["token_uri"])
		keys[account["private_key"]] = true

		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, base+"/fcm/send", strings.NewReader(`{"to":"ann"}`))
		require.NoError(t, err)
		request.Header.Set("Authorization", "key=the-key")
		response, err := http.DefaultClient.Do(request)
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, response.StatusCode)
		require.NoError(t, response.Body.Close())
		response, err = http.Get(base + "/ledger")
		require.NoError(t, err)
		ledger, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		require.Contains(t, string(ledger), `"token":"ann"`)
	}
	require.Len(t, keys, 1, "a simulator that is started again knows its users")
	info, err := os.Stat(file)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())

	const real = `{"type":"service_account","client_email":"pushq@ours.iam.gserviceaccount.com"}`
	require.NoError(t, os.WriteFile(file, []byte(real), 0o600))
	sim := testenv.StartProgram(t, testenv.BinaryWithoutRace(t), []string{"sim", "fcm", "--listen", "127.0.0.1:0", "--service-account", file})
	require.Equal(t, 1, sim.Wait(20*time.Second))
	require.Contains(t, strings.Join(sim.Stderr(), "\n"), "not the key file of a simulator")
	left, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, real, string(left))
}
