package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"text/tabwriter"
)

// since is "since TIME ", or nothing if the time is not known.
func since(time string) string {
	if time == "" {
		return ""
	}
	return "since " + time + " "
}

// printHealth prints the checks of a pushq, one a line, and returns an error if it is
// not ready.
func printHealth(ctx context.Context, out io.Writer, server, key string, encryption *tls.Config) error {
	status, answer, err := askHealth(ctx, server, "/health", key, encryption)
	if err != nil {
		return err
	}
	if status != http.StatusOK && status != http.StatusServiceUnavailable {
		return answerError(status, []byte(answer))
	}
	var report struct {
		Status string
		Checks map[string]struct {
			Status         string   `json:"status"`
			ResponseTimeMS *int64   `json:"response_time_ms"`
			CircuitBreaker string   `json:"circuit_breaker"`
			Paused         []string `json:"paused"`
			PausedUntil    string   `json:"paused_until"`
			Error          string   `json:"error"`
			Brakes         []struct {
				Channel, Since, Until, Answer string
			} `json:"brakes"`
		}
	}
	if err := json.Unmarshal([]byte(answer), &report); err != nil {
		return fmt.Errorf("%s answers %d, and not what is wrong: %w", server, status, err)
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "CHECK\tSTATUS\tTIME\tWHAT IT SAYS")
	for _, name := range slices.Sorted(maps.Keys(report.Checks)) {
		check := report.Checks[name]
		took, says := "-", check.Error
		if check.ResponseTimeMS != nil {
			took = fmt.Sprintf("%d ms", *check.ResponseTimeMS)
		}
		switch {
		case check.CircuitBreaker != "":
			says = "circuit breaker " + strings.ReplaceAll(check.CircuitBreaker, "_", " ")
			if check.Error != "" {
				says += ": " + check.Error
			}
		case len(check.Brakes) > 0:
			var brakes []string
			for _, brake := range check.Brakes {
				brakes = append(brakes, fmt.Sprintf("%s sends nothing %suntil %s: %s",
					brake.Channel, since(brake.Since), brake.Until, cmp.Or(brake.Answer, "429")))
			}
			says += ": " + strings.Join(brakes, "; ")
		case len(check.Paused) > 0:
			says = strings.Join(check.Paused, ", ")
			if check.PausedUntil != "" {
				says += " until " + check.PausedUntil
			}
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", name, check.Status, took, says)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(out, "%s: %s\n", server, report.Status)
	if status != http.StatusOK {
		return errors.New("not ready")
	}
	return nil
}
