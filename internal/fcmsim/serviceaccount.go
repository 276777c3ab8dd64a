package fcmsim

import (
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"os"

	"pushq/internal/serviceaccount"
)

const (
	keyBits     = 2048
	clientEmail = "pushq@simulator.iam.gserviceaccount.com"
	projectID   = "simulator"
)

// ServiceAccount returns the key file of the simulator's service account. base is the
// URL under which its users reach the simulator.
func (s *Simulator) ServiceAccount(base string) ([]byte, error) {
	key, err := x509.MarshalPKCS8PrivateKey(s.key)
	if err != nil {
		return nil, fmt.Errorf("write the service account's key: %w", err)
	}
	project := s.config.Project
	if project == "" {
		project = projectID
	}
	file, err := json.MarshalIndent(serviceaccount.Account{
		Type:         "service_account",
		ProjectID:    project,
		PrivateKeyID: s.keyID(),
		PrivateKey:   string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key})),
		ClientEmail:  clientEmail,
		TokenURI:     base + "/token",
	}, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("write the service account: %w", err)
	}
	return append(file, '\n'), nil
}

// keyID names the key, as the assertions signed with it do.
func (s *Simulator) keyID() string {
	sum := sha256.Sum256(x509.MarshalPKCS1PublicKey(&s.key.PublicKey))
	return hex.EncodeToString(sum[:20])
}

// ReadKey returns the key of a service account's key file, so that a simulator that is
// started again takes what the one before it has written. Without a file it returns
// neither a key nor an error; a file that no simulator has written is an error, for it would
// be overwritten.
func ReadKey(path string) (*rsa.PrivateKey, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the service account: %w", err)
	}
	var file serviceaccount.Account
	_ = json.Unmarshal(text, &file) // then there is nothing in it
	if file.ClientEmail != clientEmail {
		return nil, fmt.Errorf("%s is there already, and is not the key file of a simulator (client_email %s): name another file, this one would be overwritten", path, clientEmail)
	}
	block, _ := pem.Decode([]byte(file.PrivateKey))
	if block == nil {
		return nil, fmt.Errorf("read the service account: %s has no private_key; remove it to have a new one", path)
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("read the service account: private_key of %s is no key; remove the file to have a new one", path)
	}
	private, ok := key.(*rsa.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("read the service account: private_key of %s is not an RSA key; remove the file to have a new one", path)
	}
	return private, nil
}
