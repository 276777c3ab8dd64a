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
	maxHealthAnswer = 64 << 10
)

func newHealthCommand() *cobra.Command {
	var server string
	var live, details bool
	command := &cobra.Command{
		Use:   "health",
		Short: "Ask a pushq whether it is ready: exit code 0 if it is, 1 if it is not",
		Long: `Ask a pushq whether it is ready: exit code 0 if it is, 1 if it is not. No key is needed.
It is the health check of the container image, which has no shell.

With --details it shows each check, and what is wrong with it. For that a server that has
API keys asks for one; with a key, the server's certificate must be good.`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			path := "/health/ready"
			if live {
				path = "/health/live"
			}
			client := newPushClient(command)
			encryption, err := client.encryption()
			if err != nil {
				return err
			}
			if server == "" {
				loaded, err := loadSettings(command, false, nil)
				if err != nil {
					return err
				}
				if server, err = ownServer(loaded.Config.HTTP); err != nil {
					return err
				}
				if secret := details && client.key != ""; !secret {
					if encryption, err = ownEncryption(loaded.Config.HTTP); err != nil {
						return err
					}
				}
			}
			if details {
				return printHealth(command.Context(), command.OutOrStdout(), server, client.key, encryption)
			}
			status, answer, err := askHealth(command.Context(), server, path, "", encryption)
			if err != nil {
				return err
			}
			if status != http.StatusOK {
				return fmt.Errorf("%s answers %d %s: see its /health", server, status, answer)
			}
			fmt.Fprintln(command.OutOrStdout(), answer)
			return nil
		},
	}
	addSettingFlags(command)
	command.Flags().StringVar(&server, "server", "", "address of the pushq (default http.listen of the configuration, on this host)")
	command.Flags().Bool("ready", false, "whether it does its work: Redis answers, the clock is right, workers run (the default)")
	command.Flags().BoolVar(&live, "live", false, "whether the process answers at all")
	command.Flags().BoolVar(&details, "details", false, "every check of /health; exit code 1 only if the process is not ready")
	command.Flags().String("key", "", "API key for --details (PUSHQ_KEY)")
	command.MarkFlagsMutuallyExclusive("ready", "live", "details")
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

func askHealth(ctx context.Context, server, path, key string, encryption *tls.Config) (status int, answer string, err error) {
	if _, err := parseServer(server); err != nil {
		return 0, "", err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimRight(server, "/")+path, nil)
	if err != nil {
		return 0, "", fmt.Errorf("ask for health: %w", err)
	}
	if key != "" {
		request.Header.Set("Authorization", "Bearer "+key)
	}
	transport := &http.Transport{TLSClientConfig: encryption}
	defer transport.CloseIdleConnections()
	client := http.Client{Timeout: healthTimeout, Transport: transport}
	response, err := client.Do(request)
	if err != nil {
		return 0, "", fmt.Errorf("ask for health: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxHealthAnswer))
	if err != nil {
		return 0, "", fmt.Errorf("ask for health: %w", err)
	}
	return response.StatusCode, strings.TrimSpace(string(body)), nil
}
