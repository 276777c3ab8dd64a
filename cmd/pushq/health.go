package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"pushq/config"
	"pushq/internal/certificates"
)

const (
	// healthTimeout is below that of the image's health check, so that a server
	// which hangs is told from a command that does.
	healthTimeout   = 3 * time.Second
	maxHealthAnswer = 4 << 10
)

func newHealthCommand() *cobra.Command {
	var server string
	var live bool
	command := &cobra.Command{
		Use:   "health",
		Short: "Ask a pushq whether it is ready: exit code 0 if it is, 1 if it is not",
		Long: `Ask a pushq whether it is ready: exit code 0 if it is, 1 if it is not. No key is needed.
It is the health check of the container image, which has no shell.`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			path := "/health/ready"
			if live {
				path = "/health/live"
			}
			encryption, err := newPushClient(command).encryption()
			if err != nil {
				return err
			}
			if server == "" {
				loaded, err := loadSettings(command, false)
				if err != nil {
					return err
				}
				if server, err = ownServer(loaded.Config.HTTP); err != nil {
					return err
				}
				if encryption, err = ownEncryption(loaded.Config.HTTP); err != nil {
					return err
				}
			}
			answer, err := askHealth(command.Context(), server, path, encryption)
			if err != nil {
				return err
			}
			fmt.Fprintln(command.OutOrStdout(), answer)
			return nil
		},
	}
	addSettingFlags(command)
	command.Flags().StringVar(&server, "server", "", "address of the pushq (default http.listen of the configuration, on this host)")
	command.Flags().Bool("ready", false, "whether it does its work: Redis answers, the clock is right, workers run (the default)")
	command.Flags().BoolVar(&live, "live", false, "whether the process answers at all")
	command.MarkFlagsMutuallyExclusive("ready", "live")
	addTLSFlags(command.Flags())
	return command
}

// ownServer is where a process with these settings is reached from its own host.
func ownServer(settings config.HTTP) (string, error) {
	host, port, err := net.SplitHostPort(settings.Listen)
	if err != nil || port == "0" {
		return "", fmt.Errorf("http.listen %q names no port to ask: use --server", settings.Listen)
	}
	if host == "" {
		host = "127.0.0.1"
	}
	if address, err := netip.ParseAddr(host); err == nil && address.IsUnspecified() {
		host = "127.0.0.1"
		if address.Is6() {
			host = "::1"
		}
	}
	scheme := "http"
	if settings.TLS.Cert != "" {
		scheme = "https"
	}
	return scheme + "://" + net.JoinHostPort(host, port), nil
}

// ownEncryption is for asking a process on this very host, whose certificate is
// for the name that others know it by: that is not compared. Nothing secret is
// sent. A process that asks for certificates is shown its own.
func ownEncryption(settings config.HTTP) (*tls.Config, error) {
	own := certificates.Files{Cert: settings.TLS.Cert, Key: settings.TLS.Key}
	encryption, err := own.Client(slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, fmt.Errorf("http.tls: %w", err)
	}
	encryption.InsecureSkipVerify = true
	return encryption, nil
}

func askHealth(ctx context.Context, server, path string, encryption *tls.Config) (string, error) {
	if _, err := parseServer(server); err != nil {
		return "", err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimRight(server, "/")+path, nil)
	if err != nil {
		return "", fmt.Errorf("ask for health: %w", err)
	}
	transport := &http.Transport{TLSClientConfig: encryption}
	defer transport.CloseIdleConnections()
	client := http.Client{Timeout: healthTimeout, Transport: transport}
	response, err := client.Do(request)
	if err != nil {
		return "", fmt.Errorf("ask for health: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxHealthAnswer))
	if err != nil {
		return "", fmt.Errorf("ask for health: %w", err)
	}
	answer := strings.TrimSpace(string(body))
	if response.StatusCode != http.StatusOK {
		return "", fmt.Errorf("%s answers %d %s: see its /health", server, response.StatusCode, answer)
	}
	return answer, nil
}
