package main

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"

	"github.com/hibiken/asynqmon"
	"github.com/redis/go-redis/v9"

	"pushq/api"
	"pushq/config"
	"pushq/internal/redisconn"
)

// A dashboard is asynq's own, asynqmon. Who may see it is decided in api.
type dashboard struct {
	*asynqmon.HTTPHandler
	path, origin string // as browsers see it; the origin only if a proxy changes it
}

func openDashboard(clients *redisconn.Clients, settings config.Dashboard) dashboard {
	path, origin := api.DashboardPath, ""
	if address, err := url.Parse(settings.URL); err == nil && settings.URL != "" { // it has been checked
		path, origin = strings.TrimRight(address.Path, "/"), address.Scheme+"://"+address.Host
	}
	return dashboard{path: path, origin: origin, HTTPHandler: asynqmon.New(asynqmon.Options{
		RootPath:         path,
		RedisConnOpt:     dashboardConnection{clients.OpenDashboard()},
		PayloadFormatter: asynqmon.PayloadFormatterFunc(readablePayload),
		ReadOnly:         settings.ReadOnly,
	})}
}

var inlineScripts = regexp.MustCompile(`(?s)<script>(.*?)</script>`)

// scripts are those that stand in the page itself, which asynqmon writes by its settings.
func (d dashboard) scripts() (all []string) {
	request := &http.Request{Method: http.MethodGet, URL: &url.URL{Path: d.path + "/"}}
	page := page{header: make(http.Header)}
	d.ServeHTTP(&page, request)
	for _, script := range inlineScripts.FindAllStringSubmatch(page.String(), -1) {
		all = append(all, script[1])
	}
	return all
}

// A page is an answer that is kept.
type page struct {
	bytes.Buffer
	header http.Header
}

// Header is the answer's (http.ResponseWriter).
func (p *page) Header() http.Header { return p.header }

// WriteHeader takes any status (http.ResponseWriter).
func (p *page) WriteHeader(int) {}

// Close closes the dashboard's connections. asynqmon does so once for each of
// the two users that it has made of the one client.
func (d dashboard) Close() error {
	if err := d.HTTPHandler.Close(); err != nil && !errors.Is(err, redis.ErrClosed) {
		return fmt.Errorf("close the dashboard: %w", err)
	}
	return nil
}

// dashboardConnection makes asynqmon use a client that has been opened.
type dashboardConnection struct {
	client redis.UniversalClient
}

// MakeRedisClient returns the client (asynq.RedisConnOpt).
func (c dashboardConnection) MakeRedisClient() any { return c.client }

// readablePayload is the JSON of the push. asynqmon by itself hides payloads
// with characters such as the joiners of emoji.
func readablePayload(_ string, payload []byte) string {
	return strings.ToValidUTF8(string(payload), "\uFFFD")
}
