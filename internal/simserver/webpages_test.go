package simserver

import (
	"io"
	"net/http"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"
)

// What a simulator has received is shown to programs of this host, not to web pages.
func TestWebPagesAreKeptAway(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		listen, host string
		header       []string
		want         int
	}{
		"program":                       {"127.0.0.1:0", "", nil, 200},
		"localhost":                     {"127.0.0.1:0", "localhost:8090", nil, 200},
		"name pointed at this host":     {"127.0.0.1:0", "evil.example:8090", nil, 403},
		"page of another site":          {"127.0.0.1:0", "", []string{"Sec-Fetch-Site", "cross-site"}, 403},
		"page, old browser":             {"127.0.0.1:0", "", []string{"Origin", "https://evil.example"}, 403},
		"for all hosts, a service":      {":0", "swrve:8090", nil, 200},
		"for all hosts, page of a site": {":0", "swrve:8090", []string{"Sec-Fetch-Site", "cross-site"}, 403},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := New("simulated test")
			base, err := server.Start(test.listen, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				_, _ = io.WriteString(w, "the ledger")
			}), nil)
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, server.Close()) })
			address, err := url.Parse(base)
			require.NoError(t, err)
			for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodDelete} {
				request, err := http.NewRequest(method, "http://127.0.0.1:"+address.Port()+"/ledger", nil)
				require.NoError(t, err)
				request.Host = test.host
				for place := 0; place < len(test.header); place += 2 {
					request.Header.Set(test.header[place], test.header[place+1])
				}
				answer, err := http.DefaultClient.Do(request)
				require.NoError(t, err)
				body, err := io.ReadAll(answer.Body)
				require.NoError(t, err)
				require.NoError(t, answer.Body.Close())
				require.Equal(t, test.want, answer.StatusCode, method)
				require.Equal(t, test.want == http.StatusOK, string(body) == "the ledger", method)
			}
		})
	}
}
