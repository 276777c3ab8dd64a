package secreturl_test

import (
	"errors"
	"fmt"
	"io"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"

	"pushq/internal/secreturl"
)

func TestCut(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]secreturl.Parts{
		"amqp://h":                            {Scheme: "amqp", Hosts: "h"},
		"postgres:///d?host=/run":             {Scheme: "postgres", Tail: "/d?host=/run"},
		"postgres://u@h/d":                    {Scheme: "postgres", User: url.User("u"), Hosts: "h", Tail: "/d"},
		"postgres://u:p@a:1,[::1]:2/d?x=y":    {Scheme: "postgres", User: url.UserPassword("u", "p"), Hosts: "a:1,[::1]:2", Tail: "/d?x=y"},
		"postgres://u:one@two@h/d":            {Scheme: "postgres", User: url.UserPassword("u", "one@two"), Hosts: "h", Tail: "/d"},
		"postgres://u@server:p:@@h":           {Scheme: "postgres", User: url.UserPassword("u@server", "p:@"), Hosts: "h"},
		"postgres://u:a%40%2F%3F%23%25+%20@h": {Scheme: "postgres", User: url.UserPassword("u", "a@/?#%+ "), Hosts: "h"},
		"postgres://u:^ü{}@h":                 {Scheme: "postgres", User: url.UserPassword("u", "^ü{}"), Hosts: "h"},
		"amqp://:@h":                          {Scheme: "amqp", User: url.UserPassword("", ""), Hosts: "h"},
	} {
		got, err := secreturl.Cut(text)
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
		again, err := secreturl.Cut(got.String())
		require.NoError(t, err, got.String())
		require.Equal(t, got, again, "written out, it is the same address")
	}
}

// A password may have any of these characters in it. Written as it is, the address is read
// right or refused, and the refusal says nothing of the password.
func TestCutRefusesWhatCanBeReadInTwoWays(t *testing.T) {
	t.Parallel()
	for _, password := range []string{"5672/half", "5672?half", "5672#half", "one@5672/half", "5672/one@half", "half%zz", "half%", "half half", "half\x01"} {
		_, err := secreturl.Cut("amqp://u:" + password + "@host/vhost")
		require.ErrorContains(t, err, "%XX", password)
		require.NotContains(t, err.Error(), "half", password)
	}
}

func TestMask(t *testing.T) {
	t.Parallel()
	mask := secreturl.NewMask([]string{"p@ss w/rd", "", "abc", "pushq"}, "pushq", "host")
	for text, want := range map[string]string{
		"AUTH 'p@ss w/rd' p%40ss+w%2Frd p@ss%20w%2Frd p%40ss%20w%2Frd": "AUTH '[secret]' [secret] [secret] [secret]",
		"user pushq of abc": "user pushq of abc",
	} {
		require.Equal(t, want, mask.Text(text))
	}
	for _, secrets := range [][]string{{"pass", "password1", "pass/1"}, {"pass/1", "password1", "pass"}} {
		require.Equal(t, "[secret] [secret] [secret] [secret]", secreturl.NewMask(secrets).Text("password1 pass pass/1 pass%2F1"))
	}
	cause := fmt.Errorf("dial p@ss w/rd: %w", io.EOF)
	require.EqualError(t, mask.Error(cause), "dial [secret]: EOF")
	require.ErrorIs(t, mask.Error(cause), io.EOF)
	plain := errors.New("refused")
	require.Same(t, plain, mask.Error(plain))
	require.NoError(t, mask.Error(nil))
	require.Same(t, cause, secreturl.Mask{}.Error(cause))
}
