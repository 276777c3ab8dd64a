// Package certificates reads the PEM files that TLS needs, and those of renewed
// certificates again.
package certificates

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
)

// Files name PEM files; an empty name is none.
type Files struct {
	CA        string // authorities that the other side must be signed by
	Cert, Key string // what this side shows; both or none
}

// Client returns what TLS needs to connect to a server. Its certificate must be
// signed by one of Files.CA, or without that by one that this host trusts, and
// be for the name that is dialled.
func (f Files) Client(log *slog.Logger) (*tls.Config, error) {
	settings := &tls.Config{MinVersion: tls.VersionTLS12}
	if f.CA != "" {
		authorities, err := ReadAuthorities(f.CA)
		if err != nil {
			return nil, fmt.Errorf("the file of authorities %s %w", f.CA, err)
		}
		settings.RootCAs = authorities
	}
	if f.Cert != "" {
		pair, err := watch(f.Cert, f.Key, log)
		if err != nil {
			return nil, err
		}
		settings.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return pair.latest(), nil }
	}
	return settings, nil
}

// Server returns what TLS needs to serve HTTP/1.1. With Files.CA nobody gets in
// without a certificate that one of them has signed.
func (f Files) Server(log *slog.Logger) (*tls.Config, error) {
	pair, err := watch(f.Cert, f.Key, log)
	if err != nil {
		return nil, err
	}
	settings := &tls.Config{
		MinVersion:     tls.VersionTLS12,
		NextProtos:     []string{"http/1.1"},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return pair.latest(), nil },
	}
	if f.CA != "" {
		if settings.ClientCAs, err = ReadAuthorities(f.CA); err != nil {
			return nil, fmt.Errorf("the file of authorities %s %w", f.CA, err)
		}
		settings.ClientAuth = tls.RequireAndVerifyClientCert
	}
	return settings, nil
}

// ReadAuthorities reads a file of certificates. Its error reads as a sentence
// about the file.
func ReadAuthorities(file string) (*x509.CertPool, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, unreadable(err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(content) {
		return nil, errors.New("holds no certificate in PEM form (-----BEGIN CERTIFICATE-----)")
	}
	return pool, nil
}

// ReadPair reads a certificate and its key. Its error reads as a sentence about
// the certificate's file.
func ReadPair(certFile, keyFile string) (*tls.Certificate, error) {
	cert, err := os.ReadFile(certFile)
	if err != nil {
		return nil, unreadable(err)
	}
	key, err := os.ReadFile(keyFile)
	if err != nil {
		return nil, fmt.Errorf("has a key that %w", unreadable(err))
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, fmt.Errorf("and its key cannot be used: %w", err)
	}
	return &pair, nil
}

func unreadable(err error) error {
	if pathError, ok := errors.AsType[*fs.PathError](err); ok {
		err = pathError.Err
	}
	return fmt.Errorf("cannot be read: %w", err)
}
