package testenv

import (
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
)

// TrustTestServers lets this process trust the certificate of httptest's servers. It is
// for TestMain: it comes before the first TLS connection, and forget after all tests.
// The system's certificates are not trusted meanwhile.
func TrustTestServers() (forget func()) {
	server := httptest.NewTLSServer(http.NotFoundHandler())
	server.Close()
	directory, err := os.MkdirTemp("", "trust")
	if err != nil {
		panic(err)
	}
	file := filepath.Join(directory, "ca.pem")
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	if err := os.WriteFile(file, certificate, 0o600); err != nil {
		panic(err)
	}
	if err := os.Setenv("SSL_CERT_FILE", file); err != nil {
		panic(err)
	}
	return func() { _ = os.RemoveAll(directory) }
}
