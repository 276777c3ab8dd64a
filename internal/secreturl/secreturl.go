// Package secreturl is for addresses that may hold a password: it cuts them the same way
// for every server, and takes the password out of what others say about them.
package secreturl

import (
	"errors"
	"net/url"
	"strings"
	"unicode"
)

// Hint says how a password is written that has special characters.
const Hint = "special characters in the password are written as %XX"

// Parts are those of an address: SCHEME://USER:PASSWORD@HOSTS/PATH?QUERY.
type Parts struct {
	Scheme string
	// User is nil if there is nothing before an @.
	User  *url.Userinfo
	Hosts string // one or several, with their ports
	Tail  string // from the / or ? behind the hosts on
}

// The errors of Cut quote nothing of the address, and read as a sentence whose subject is
// the setting that holds it: a password with an unescaped character may end up in any part.
var (
	errFragment = errors.New("has a part after #; " + Hint)
	errLateAt   = errors.New("has an @ behind the hosts; " + Hint + ", and an @ there as %40")
	errUser     = errors.New("has a user or password that cannot be read; " + Hint)
)

// Cut cuts an address. The user and the password end at the last @ before the first of
// / ? #, as net/url and most programs have it; libpq takes the first @, and would dial the
// second half of a password that has one. An @ or # behind the hosts is refused: there what
// looks like a host may be the beginning of a password.
func Cut(text string) (Parts, error) {
	scheme, rest, _ := strings.Cut(text, "://")
	end := strings.IndexAny(rest, "/?#")
	if end < 0 {
		end = len(rest)
	}
	parts := Parts{Scheme: scheme, Hosts: rest[:end], Tail: rest[end:]}
	switch {
	case strings.Contains(parts.Tail, "#"):
		return Parts{}, errFragment
	case strings.Contains(parts.Tail, "@"):
		return Parts{}, errLateAt
	}
	if at := strings.LastIndex(parts.Hosts, "@"); at >= 0 {
		user, err := readUser(parts.Hosts[:at])
		if err != nil {
			return Parts{}, err
		}
		parts.User, parts.Hosts = user, parts.Hosts[at+1:]
	}
	return parts, nil
}

// readUser refuses blanks and the like, as net/url and libpq do: they are mistakes.
func readUser(text string) (*url.Userinfo, error) {
	if strings.ContainsFunc(text, func(r rune) bool { return r == ' ' || unicode.IsControl(r) }) {
		return nil, errUser
	}
	encodedName, encodedPassword, hasPassword := strings.Cut(text, ":")
	name, err := url.PathUnescape(encodedName)
	if err != nil {
		return nil, errUser
	}
	if !hasPassword {
		return url.User(name), nil
	}
	password, err := url.PathUnescape(encodedPassword)
	if err != nil {
		return nil, errUser
	}
	return url.UserPassword(name, password), nil
}

// Password is the password, "" if there is none.
func (p Parts) Password() string {
	if p.User == nil {
		return ""
	}
	password, _ := p.User.Password()
	return password
}

// String is the address with everything special in user and password percent-encoded, so
// that every reader cuts it at the same places.
func (p Parts) String() string {
	user := ""
	if p.User != nil {
		user = p.User.String() + "@"
	}
	return p.Scheme + "://" + user + p.Hosts + p.Tail
}
