package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"pushq/internal/swrvesim"
	"pushq/internal/testenv"
)

// A site points its own name at this host, and its page asks what only this host may know:
// pushq without keys shows a browser nothing by that name, and nothing to pages of other
// sites, the dashboard's own API included.
func TestAWebPageLearnsNothingFromThisHost(t *testing.T) {
	t.Parallel()
	w := newWorld(t, swrvesim.Config{})
	serve := w.startReady("serve")
	id := accept(t, serve, "user-of-this-host")
	address, err := url.Parse(serve.URL())
	require.NoError(t, err)
	page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = fmt.Fprint(w, "<!doctype html><title>a page</title><link rel=icon href=data:,><body>a page</body>")
	}))
	t.Cleanup(page.Close)

	b := startBrowser(t, "", "")
	const body = "document.body.innerText"
	for _, path := range []string{"/push/" + id, "/monitoring/api/queues", "/metrics"} {
		b.run(t, "open "+path+" by another name", chromedp.Navigate("http://"+otherName+":"+address.Port()+path))
		text, err := chromedp.Run(b.ctx, chromedp.Evaluate[string](body))
		require.NoError(t, err)
		require.Contains(t, text, `"status":403`, path)
		require.NotContains(t, text, "user-of-this-host", path)
	}

	b.run(t, "open the page of another site", chromedp.Navigate(strings.Replace(page.URL, "127.0.0.1", otherName, 1)))
	for _, path := range []string{"/push/" + id, "/monitoring/api/queues"} {
		asked := serve.URL() + path
		b.run(t, "ask for "+path, chromedp.Evaluate[chromedp.Void](fmt.Sprintf("void fetch(%q, {mode: 'no-cors'})", asked)))
		testenv.Eventually(t, 20*time.Second, "the browser to be refused", func() bool {
			b.mutex.Lock()
			defer b.mutex.Unlock()
			for _, complaint := range b.complaints {
				if strings.Contains(complaint, "403") && strings.Contains(complaint, asked) {
					return true
				}
			}
			return false
		})
	}

	b.run(t, "follow a link to the dashboard", chromedp.Evaluate[chromedp.Void](fmt.Sprintf("location.href = %q", serve.URL()+"/monitoring/")),
		chromedp.WaitVisible(`//a[@href="/monitoring/queues/swrve"]`))
}
