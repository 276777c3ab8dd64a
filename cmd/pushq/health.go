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
	"os"
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
	var local, live, details bool
	command := &cobra.Command{
		Use:   "health",
		Short: "Ask a pushq whether it is ready: exit code 0 if it is, 1 if it is not",
		Long: `Ask a pushq whether it is ready: exit code 0 if it is, 1 if it is not. No key is needed.
It asks the address of --server, or that of PUSHQ_SERVER, or else this host at http.listen of the configuration, and says
which one has answered. --local asks this host whatever PUSHQ_SERVER says: so does the health check of the container image,
which has no shell.

With --details it shows each check, and what is wrong with it. For that a server that has
API keys asks for one; with a key, the server's certificate must be good.`,
		Args: noArguments,
		RunE: func(command *cobra.Command, _ []string) error {
			if err := atMostOneFlag(command, "ready", "live", "details"); err != nil {
				return err
			}
			if err := atMostOneFlag(command, "server", "local"); err != nil {
				return err
			}
			path := "/health/ready"
			if live {
				path = "/health/live"
			}
			asked, err := healthServer(command, local, details)
			if err != nil {
				return err
			}
			if details {
				return printHealth(command.Context(), command.OutOrStdout(), asked.server, asked.key, asked.encryption)
			}
			status, answer, err := askHealth(command.Context(), asked.server, path, "", asked.encryption)
			if err != nil {
				return err
			}
			if status != http.StatusOK {
				return fmt.Errorf("%s answers %d %s: see its /health", asked.server, status, answer)
			}
			fmt.Fprintf(command.OutOrStdout(), "%s: %s\n", asked.server, answer)
			return nil
		},
	}
	addSettingFlags(command)
	command.Flags().String("server", os.Getenv("PUSHQ_SERVER"), "address of the pushq (PUSHQ_SERVER; default http.listen of the configuration, on this host)")
	command.Flags().BoolVar(&local, "local", false, "ask this host, whatever PUSHQ_SERVER says")
	command.Flags().Bool("ready", false, "whether it does its work: Redis answers, the clock is right, workers run (the default)")
	command.Flags().BoolVar(&live, "live", false, "whether the process answers at all")
	command.Flags().BoolVar(&details, "details", false, "every check of /health; exit code 1 only if the process is not ready")
	command.Flags().String("key", "", "API key for --details (PUSHQ_KEY)")
	addTLSFlags(command.Flags())
	return command
}

// An askedServer is who is asked for its health, and how.
type askedServer struct {
	server     string
	key        string
	encryption *tls.Config
}

// healthServer is the one that is named, or that on this host.
func healthServer(command *cobra.Command, local, details bool) (askedServer, error) {
	client, err := newPushClient(command)
	if err != nil {
		return askedServer{}, err
	}
	asked := askedServer{server: client.server, key: client.key}
	if asked.encryption, err = client.encryption(); err != nil {
		return asked, err
	}
	if asked.server != "" && !local {
		return asked, nil
	}
	loaded, err := loadSettings(command, false, nil)
	if err != nil {
		return asked, err
	}
	if asked.server, err = ownServer(loaded.Config.HTTP); err != nil {
		return asked, err
	}
	if secret := details && client.key != ""; !secret {
		asked.encryption, err = ownEncryption(loaded.Config.HTTP)
	}
	return asked, err
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
		return 0, "", fmt.Errorf("ask for health: %w\n%s", err, callAdvice(err))
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxHealthAnswer))
	if err != nil {
		return 0, "", fmt.Errorf("ask for health: %w", err)
	}
	return response.StatusCode, strings.TrimSpace(string(body)), nil
}
