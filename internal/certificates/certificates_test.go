package certificates

import (
	"bytes"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pushq/internal/testenv"
)

// shake connects a client to a server and returns what the client has seen of
// the server, and what each of them says.
func shake(t *testing.T, server, client *tls.Config) (seen tls.ConnectionState, serverErr, clientErr error) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = listener.Close() }()
	client = client.Clone()
	client.ServerName = "localhost"
	near, err := net.Dial("tcp", listener.Addr().String())
	require.NoError(t, err)
	defer func() { _ = near.Close() }()
	far, err := listener.Accept()
	require.NoError(t, err)
	calling, serving := tls.Client(near, client), tls.Server(far, server)
	var both sync.WaitGroup
	both.Go(func() {
		serverErr = serving.HandshakeContext(t.Context())
		if serverErr == nil {
			_, serverErr = serving.Write([]byte("x"))
		}
		_ = serving.Close()
	})
	if clientErr = calling.HandshakeContext(t.Context()); clientErr == nil {
		seen = calling.ConnectionState()
		_, clientErr = calling.Read(make([]byte, 1)) // in TLS 1.3 a refusal comes after the handshake
	}
	_ = near.Close()
	both.Wait()
	return seen, serverErr, clientErr
}

func TestBothSidesCheckEachOther(t *testing.T) {
	t.Parallel()
	log := slog.New(slog.DiscardHandler)
	authority, stranger := testenv.NewAuthority(t), testenv.NewAuthority(t)
	soon := time.Now().Add(time.Hour)
	files := func(authority, issuer *testenv.Authority) Files {
		f := Files{}
		if authority != nil {
			f.CA = authority.File()
		}
		if issuer != nil {
			f.Cert, f.Key = issuer.Issue(soon, "localhost")
		}
		return f
	}
	for name, test := range map[string]struct {
		server, client         Files
		serverSays, clientSays string
	}{
		"server only":                  {files(nil, authority), files(authority, nil), "", ""},
		"both":                         {files(authority, authority), files(authority, authority), "", ""},
		"unasked":                      {files(nil, authority), files(authority, authority), "", ""},
		"server of a stranger":         {files(nil, stranger), files(authority, nil), "remote error: tls: bad certificate", "signed by unknown authority"},
		"server of nobody known here":  {files(nil, authority), files(nil, nil), "remote error: tls: bad certificate", "signed by unknown authority"},
		"client of a stranger":         {files(authority, authority), files(authority, stranger), "signed by unknown authority", "tls: "},
		"client without a certificate": {files(authority, authority), files(authority, nil), "client didn't provide a certificate", "tls: certificate required"},
	} {
		server, err := test.server.Server(log)
		require.NoError(t, err, name)
		client, err := test.client.Client(log)
		require.NoError(t, err, name)
		_, serverErr, clientErr := shake(t, server, client)
		if test.clientSays == "" {
			require.NoError(t, serverErr, name)
			require.NoError(t, clientErr, name)
			continue
		}
		require.ErrorContains(t, serverErr, test.serverSays, name)
		require.ErrorContains(t, clientErr, test.clientSays, name)
	}
}

func TestOldTLSIsRefused(t *testing.T) {
	t.Parallel()
	authority := testenv.NewAuthority(t)
	f := Files{CA: authority.File()}
	f.Cert, f.Key = authority.Issue(time.Now().Add(time.Hour), "localhost")
	server, err := f.Server(slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	client, err := f.Client(slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	old := client.Clone()
	old.MinVersion, old.MaxVersion = tls.VersionTLS10, tls.VersionTLS11
	_, serverErr, _ := shake(t, server, old)
	require.ErrorContains(t, serverErr, "version")
	require.EqualValues(t, tls.VersionTLS12, client.MinVersion)
}

// A renewal is seen by the next handshake, and one that is broken changes
// nothing and is logged once.
func TestARenewedCertificateIsReadAgain(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&log, nil))
	authority := testenv.NewAuthority(t)
	f := Files{CA: authority.File()}
	f.Cert, f.Key = authority.Issue(time.Now().Add(time.Hour), "localhost")
	server, err := f.Server(logger)
	require.NoError(t, err)
	client, err := f.Client(logger)
	require.NoError(t, err)
	serial := func() string {
		seen, serverErr, clientErr := shake(t, server, client)
		require.NoError(t, errors.Join(serverErr, clientErr))
		return seen.PeerCertificates[0].SerialNumber.String()
	}
	first := serial()
	require.Equal(t, first, serial())
	require.Empty(t, log.String())

	require.NoError(t, os.WriteFile(f.Cert, []byte("half"), 0o600))
	require.Equal(t, first, serial())
	require.Equal(t, first, serial())
	require.NoError(t, os.Remove(f.Key))
	require.Equal(t, first, serial())
	require.Equal(t, first, serial())
	require.Equal(t, 4, strings.Count(log.String(), "the renewed certificate cannot be used"), "once for each change, by server and client")

	authority.Renew(f.Cert, f.Key, time.Now().Add(2*time.Hour), "localhost")
	second := serial()
	require.NotEqual(t, first, second)
	require.Equal(t, second, serial())
	require.Contains(t, log.String(), "certificate read again")
}
