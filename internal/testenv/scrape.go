package testenv

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
)

// A Scrape is an answer of /metrics.
type Scrape struct {
	Text string
	// Series are the values, by name and labels as they are written:
	// `pushq_received_total{kind="immediate"}`, labels in alphabetical order.
	Series map[string]float64
}

// ScrapeHandler scrapes a handler; anything but 200 ends the test.
func ScrapeHandler(t testing.TB, handler http.Handler) Scrape {
	t.Helper()
	server := httptest.NewServer(handler)
	defer server.Close()
	return ScrapeURL(t, server.URL)
}

// ScrapeURL scrapes an address; anything but 200 ends the test.
func ScrapeURL(t testing.TB, url string) Scrape {
	t.Helper()
	response, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("scrape %s: status %d, %v: %s", url, response.StatusCode, err, body)
	}
	scrape := Scrape{Text: string(body), Series: make(map[string]float64)}
	for line := range strings.Lines(scrape.Text) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		place := strings.LastIndex(line, " ")
		value, err := strconv.ParseFloat(strings.TrimSpace(line[place+1:]), 64)
		if err != nil {
			t.Fatalf("scrape %s: cannot read %q: %v", url, line, err)
		}
		scrape.Series[line[:place]] = value
	}
	return scrape
}

// Family returns the series of one metric by their labels, as they are written
// between the braces, leaving out those that are 0.
func (s Scrape) Family(name string) map[string]float64 {
	found := make(map[string]float64)
	for series, value := range s.Series {
		metric, labels, _ := strings.Cut(strings.TrimSuffix(series, "}"), "{")
		if metric == name && value != 0 {
			found[labels] = value
		}
	}
	return found
}
