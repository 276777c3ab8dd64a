// Package serviceaccount reads the key file that Google Cloud writes for a service account.
package serviceaccount

import (
	"cmp"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// An Account is what is in the key file.
type Account struct {
	Type         string `json:"type"`
	ProjectID    string `json:"project_id"`
	PrivateKeyID string `json:"private_key_id"`
	PrivateKey   string `json:"private_key"` // PEM
	ClientEmail  string `json:"client_email"`
	TokenURI     string `json:"token_uri"`
}

const googleTokenURI = "https://oauth2.googleapis.com/token"

// Read checks as much as can be checked without asking Google. Its errors quote nothing of
// the file.
func Read(file []byte) (Account, error) {
	var account Account
	if len(file) == 0 {
		return account, errors.New("must be set in mode v1: the key file of a service account")
	}
	if json.Unmarshal(withEscapedBreaks(file), &account) != nil {
		return account, errors.New("is not JSON: it must be what is in the key file, not the file's name")
	}
	switch {
	case account.Type != "service_account":
		return account, errors.New(`must be the key file of a service account, with "type": "service_account"`)
	case account.ClientEmail == "":
		return account, errors.New("client_email is missing")
	case account.PrivateKey == "":
		return account, errors.New("private_key is missing")
	}
	account.PrivateKey = withLineBreaks(account.PrivateKey)
	if err := checkPrivateKey(account.PrivateKey); err != nil {
		return account, fmt.Errorf("private_key %w", err)
	}
	account.TokenURI = cmp.Or(account.TokenURI, googleTokenURI)
	return account, nil
}

func checkPrivateKey(text string) error {
	block, _ := pem.Decode([]byte(text))
	if block == nil {
		return errors.New("is not PEM")
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		if _, err = x509.ParsePKCS1PrivateKey(block.Bytes); err != nil {
			return errors.New("is not an RSA key")
		}
		return nil
	}
	if _, ok := key.(*rsa.PrivateKey); !ok {
		return errors.New("is not an RSA key")
	}
	return nil
}

// withEscapedBreaks puts back the \n of JSON's texts that a template or an env file has
// made line breaks of.
func withEscapedBreaks(file []byte) []byte {
	mended := make([]byte, 0, len(file))
	inText := false
	for place := 0; place < len(file); place++ {
		switch character := file[place]; {
		case inText && character == '\\' && place+1 < len(file):
			mended = append(mended, character, file[place+1])
			place++
		case inText && character == '\n':
			mended = append(mended, `\n`...)
		case inText && character == '\r': // of a line break of Windows
		default:
			inText = inText != (character == '"')
			mended = append(mended, character)
		}
	}
	return mended
}

var pemBlock = regexp.MustCompile(`(?s)-----BEGIN ([A-Z ]+)-----(.*)-----END ([A-Z ]+)-----`)

// withLineBreaks puts the line breaks of a key where PEM wants them: on their way through
// variables and templates they become blanks, \n written out, or those of Windows. Any
// other text stays as it is.
func withLineBreaks(text string) string {
	parts := pemBlock.FindStringSubmatch(strings.NewReplacer(`\r`, "", `\n`, "\n").Replace(text))
	if parts == nil {
		return text
	}
	key, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(parts[2]), ""))
	if err != nil {
		return text
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: parts[1], Bytes: key}))
}
