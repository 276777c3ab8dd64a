package secreturl

import (
	"net/url"
	"slices"
	"strings"
)

const (
	// masked stands in a text for a secret.
	masked = "[secret]"
	// shortest is the length from which a secret is looked for: a text would be unreadable
	// without each "a", and would say by that what the secret is.
	shortest = 4
)

// A Mask takes secrets out of texts that others have written: drivers and servers may quote
// what they were given. The zero Mask knows no secrets.
type Mask struct {
	replacer *strings.Replacer
}

// NewMask returns a mask for secrets. One that is also shown, such as the name of a user who
// has it for a password, cannot be told from that and is left alone.
func NewMask(secrets []string, shown ...string) Mask {
	var forms []string
	for _, secret := range secrets {
		if len(secret) < shortest || slices.Contains(shown, secret) {
			continue
		}
		forms = append(forms, secret, url.QueryEscape(secret), url.PathEscape(secret),
			strings.TrimPrefix(url.UserPassword("", secret).String(), ":"))
	}
	if len(forms) == 0 {
		return Mask{}
	}
	// The replacer takes the first that fits: of a secret that begins with another one, the
	// rest would be left.
	slices.SortFunc(forms, func(a, b string) int { return len(b) - len(a) })
	var pairs []string
	for _, form := range forms {
		pairs = append(pairs, form, masked)
	}
	return Mask{strings.NewReplacer(pairs...)}
}

// Text is the text without the secrets.
func (m Mask) Text(text string) string {
	if m.replacer == nil {
		return text
	}
	return m.replacer.Replace(text)
}

// Error is an error whose text is without the secrets, and in which errors.Is and errors.As
// find what they would find in err. It is err itself if that has none.
func (m Mask) Error(err error) error {
	if err == nil {
		return nil
	}
	text := err.Error()
	if clean := m.Text(text); clean != text {
		return &maskedError{clean, err}
	}
	return err
}

type maskedError struct {
	text  string
	cause error
}

func (e *maskedError) Error() string { return e.text }
func (e *maskedError) Unwrap() error { return e.cause }
