package main

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/cdproto/audits"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/fetch"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"pushq/internal/swrvesim"
	"pushq/tasks"
)

// A browser is a headless Chromium with a profile of its own. It answers the
// question for user and password as a person does.
type browser struct {
	ctx            context.Context
	user, password string

	mutex      sync.Mutex
	asked      int
	complaints []string // of its console, violations of a page's policy included
}

const browserTimeout = 60 * time.Second

// otherName is a name that somebody has pointed at this host.
const otherName = "evil.example"

func startBrowser(t *testing.T, user, password string) *browser {
	t.Helper()
	profile := t.TempDir()
	var command *exec.Cmd
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath("chromium"), chromedp.UserDataDir(profile), chromedp.Env("HOME="+profile),
		chromedp.NoSandbox, chromedp.DisableGPU, chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true),
		// Nothing but this host is ever reached.
		chromedp.Flag("host-resolver-rules", "MAP "+otherName+" 127.0.0.1, MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"),
		chromedp.WSURLReadTimeout(browserTimeout),
		chromedp.ModifyCmdFunc(func(cmd *exec.Cmd) {
			cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
			command = cmd
		}))
	ctx, cancelTimeout := context.WithTimeout(context.Background(), browserTimeout)
	ctx, cancelAllocator := chromedp.NewExecAllocator(ctx, options...)
	ctx, cancelBrowser := chromedp.NewContext(ctx)
	t.Cleanup(func() {
		cancelBrowser()
		cancelAllocator()
		cancelTimeout()
		if command != nil && command.Process != nil {
			_ = syscall.Kill(-command.Process.Pid, syscall.SIGKILL) // what it has left behind
		}
	})
	b := &browser{ctx: ctx, user: user, password: password}
	require.NoError(t, chromedp.Listen(ctx, b.hear))
	handled := true
	_, err := chromedp.Call(ctx, fetch.Enable, fetch.EnableParams{HandleAuthRequests: &handled})
	require.NoError(t, err)
	_, err = chromedp.Call(ctx, audits.Enable, cdp.Empty{})
	require.NoError(t, err)
	return b
}

// hear is called for every event, and must not wait for the browser.
func (b *browser) hear(event any) {
	switch event := event.(type) {
	case *fetch.EventRequestPaused: // every request; it may be over when this arrives
		go func() {
			_, _ = chromedp.Call(b.ctx, fetch.ContinueRequest, fetch.ContinueRequestParams{RequestID: event.RequestID})
		}()
	case *fetch.EventAuthRequired:
		b.mutex.Lock()
		b.asked++
		b.mutex.Unlock()
		answer := &fetch.AuthChallengeResponse{Response: "ProvideCredentials", Username: b.user, Password: b.password}
		go func() {
			_, _ = chromedp.Call(b.ctx, fetch.ContinueWithAuth, fetch.ContinueWithAuthParams{RequestID: event.RequestID, AuthChallengeResponse: answer})
		}()
	case *runtime.EventExceptionThrown:
		b.complain(fmt.Sprintf("exception: %+v", *event.ExceptionDetails))
	case *log.EventEntryAdded:
		if event.Entry.Level == log.EntryLevelError {
			b.complain(fmt.Sprintf("%s: %s (%s)", event.Entry.Source, event.Entry.Text, event.Entry.URL))
		}
	case *audits.EventIssueAdded:
		if policy := event.Issue.Details.ContentSecurityPolicyIssueDetails; policy != nil {
			b.complain(fmt.Sprintf("policy: %s against %s", policy.BlockedURL, policy.ViolatedDirective))
		}
	}
}

// complain keeps all but two: about asynqmon's fonts of Google, which the
// policy is meant to forbid, and about its manifest, which browsers ask for
// without the password.
func (b *browser) complain(text string) {
	font := strings.Contains(text, "https://fonts.googleapis.com/") && strings.Contains(text, "style-src")
	manifest := strings.Contains(text, "/monitoring/manifest.json") && strings.Contains(text, "401")
	if font || manifest {
		return
	}
	b.mutex.Lock()
	defer b.mutex.Unlock()
	b.complaints = append(b.complaints, text)
}

func (b *browser) requireContent(t *testing.T) {
	t.Helper()
	b.mutex.Lock()
	defer b.mutex.Unlock()
	require.Empty(t, b.complaints)
	require.NotZero(t, b.asked, "nobody asked for the password")
}

const stepTimeout = 25 * time.Second

// run does the actions, and shows the page if they fail.
func (b *browser) run(t *testing.T, what string, actions ...chromedp.Action[chromedp.Void]) {
	t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, stepTimeout)
	defer cancel()
	if err := chromedp.Do(ctx, actions...); err != nil {
		page, _ := chromedp.Run(b.ctx, chromedp.OuterHTML(chromedp.CSS("#root")))
		b.mutex.Lock()
		defer b.mutex.Unlock()
		t.Fatalf("%s: %v\nconsole: %q\npage:\n%s", what, err, b.complaints, page)
	}
}

// click is done by script, so that it is for the element and not for the place
// on the screen where it was a moment ago: the page moves while it loads, and
// under a mouse that rests on it.
func click(xpath string) chromedp.Action[chromedp.Void] {
	return chromedp.Evaluate[chromedp.Void](fmt.Sprintf(
		"document.evaluate(%q, document, null, XPathResult.FIRST_ORDERED_NODE_TYPE).singleNodeValue.click()", xpath))
}

func TestAnOperatorRunsAPushInTheBrowser(t *testing.T) {
	t.Parallel()
	const password = "correct-horse-battery"
	w := newWorld(t, swrvesim.Config{})
	serve := w.startReady("serve", "DASHBOARD_USER=operator", "DASHBOARD_PASSWORD="+password)
	id := accept(t, serve, "400x1-user")
	waitFor(t, serve, id, tasks.Failed, 20*time.Second)

	b := startBrowser(t, "operator", password)
	const toQueue, toArchived, runButton = `//a[@href="/monitoring/queues/swrve"]`, `//div[@role="button"][contains(., "Archived")]`, `//tbody//button[@title="Run"]`
	idCell := `//tbody//th[contains(., "` + id + `")]`
	b.run(t, "log in and see the queues", chromedp.Navigate(serve.URL()+"/monitoring/"),
		chromedp.WaitVisible(toQueue), chromedp.WaitVisible(`//a[@href="/monitoring/queues/swrve-window"]`))
	b.run(t, "open the queue", click(toQueue), chromedp.WaitVisible(toArchived))
	b.run(t, "open the archived pushes", click(toArchived), chromedp.WaitVisible(idCell))
	b.run(t, "show what can be done with the push", click(`//tbody//tr[contains(., "`+id+`")]/td[last()]//button`), chromedp.WaitVisible(runButton))
	b.run(t, "run the push", click(runButton), chromedp.WaitNotPresent(idCell))
	require.Len(t, waitFor(t, serve, id, tasks.Sent, 20*time.Second).Attempts, 2)
	require.Equal(t, map[string]int{"400x1-user": 1}, w.Deliveries())
	b.requireContent(t)
}
