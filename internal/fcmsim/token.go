package fcmsim

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"pushq/internal/reset"
)

// What the token endpoint may be told to do, besides any status from 400 to 599.
const (
	TokenHangs        = "hang"
	TokenResets       = "reset"
	TokenInvalidGrant = "invalid_grant"
	TokenIsAPage      = "html"      // 200 and a page, as from a proxy
	TokenNotAHeader   = "linebreak" // an access token with a line break in it
)

// SetToken changes what the token endpoint does with requests that arrive from now on:
// one of the faults, a status such as "503", or "" for none. A life of 0 leaves that of
// its tokens as it is.
func (s *Simulator) SetToken(fault string, life time.Duration) error {
	known := []string{"", TokenHangs, TokenResets, TokenInvalidGrant, TokenIsAPage, TokenNotAHeader}
	if _, isStatus := statusOf(fault); !isStatus && !slices.Contains(known, fault) {
		return fmt.Errorf("token fault %q: use hang, reset, invalid_grant, html, linebreak, a status from 400 to 599, or nothing", fault)
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.tokenFault = fault
	if life > 0 {
		s.config.TokenLife = life
	}
	return nil
}

// Revoke ends the validity of every access token.
func (s *Simulator) Revoke() {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	clear(s.tokens)
}

func statusOf(fault string) (int, bool) {
	var status int
	_, err := fmt.Sscanf(fault, "%d", &status)
	return status, err == nil && status >= 400 && status <= 599 && len(fault) == 3
}

func (s *Simulator) serveToken(w http.ResponseWriter, r *http.Request) {
	if !s.server.Enter() {
		reset.Connection(w)
		return
	}
	defer s.server.Leave()
	s.mutex.Lock()
	s.round.stats.TokenRequests++
	fault := s.tokenFault
	s.mutex.Unlock()

	problem := s.checkGrant(r, readBody(w, r))
	switch status, isStatus := statusOf(fault); {
	case fault == TokenHangs:
		s.server.Wait(r, nil)
		reset.Connection(w)
	case fault == TokenResets:
		reset.Connection(w)
	case fault == TokenIsAPage:
		write(w, page(http.StatusOK))
	case isStatus:
		write(w, page(status))
	case fault == TokenNotAHeader:
		writeJSON(w, http.StatusOK, map[string]any{"access_token": "ya29.simulated\nX-Other: 1", "token_type": "Bearer", "expires_in": 3600})
	case fault == TokenInvalidGrant:
		writeJSON(w, http.StatusBadRequest, map[string]string{"error": "invalid_grant", "error_description": "Invalid JWT Signature."})
	case problem != nil:
		writeJSON(w, http.StatusBadRequest, problem)
	default:
		s.issue(w)
	}
}

// issue answers with a new access token.
func (s *Simulator) issue(w http.ResponseWriter) {
	token := "ya29.simulated-" + rand.Text()
	s.mutex.Lock()
	now := time.Now()
	for old, end := range s.tokens {
		if now.After(end) {
			delete(s.tokens, old)
		}
	}
	life := s.config.TokenLife
	s.tokens[token] = now.Add(life)
	s.round.stats.TokensIssued++
	s.mutex.Unlock()
	writeJSON(w, http.StatusOK, map[string]any{
		"access_token": token, "token_type": "Bearer", "expires_in": int(life / time.Second),
	})
}

const (
	grantType      = "urn:ietf:params:oauth:grant-type:jwt-bearer"
	messagingScope = "https://www.googleapis.com/auth/firebase.messaging"
	longestGrant   = time.Hour
	clockSkew      = 5 * time.Minute
)

// checkGrant checks the request for an access token (RFC 7523), as Google does. It
// returns what is wrong.
func (s *Simulator) checkGrant(r *http.Request, body []byte) map[string]string {
	form, err := url.ParseQuery(string(body))
	if err != nil {
		return map[string]string{"error": "invalid_request", "error_description": "Malformed form."}
	}
	if form.Get("grant_type") != grantType {
		return map[string]string{"error": "unsupported_grant_type", "error_description": "Invalid grant_type: " + form.Get("grant_type")}
	}
	scheme := "http"
	if r.TLS != nil {
		scheme = "https"
	}
	if err := s.checkAssertion(form.Get("assertion"), scheme+"://"+r.Host+r.URL.Path, time.Now()); err != nil {
		return map[string]string{"error": "invalid_grant", "error_description": err.Error()}
	}
	return nil
}

func (s *Simulator) checkAssertion(assertion, audience string, now time.Time) error {
	parts := strings.Split(assertion, ".")
	if len(parts) != 3 {
		return errors.New("a JWT has three parts")
	}
	var header struct{ Alg, Kid string }
	var claims struct {
		Iss, Scope, Aud string
		Iat, Exp        int64
	}
	signature, err := base64.RawURLEncoding.DecodeString(parts[2])
	if err != nil || !decodePart(parts[0], &header) || !decodePart(parts[1], &claims) {
		return errors.New("malformed JWT")
	}
	sum := sha256.Sum256([]byte(parts[0] + "." + parts[1]))
	issued, expires := time.Unix(claims.Iat, 0), time.Unix(claims.Exp, 0)
	switch {
	case header.Alg != "RS256":
		return fmt.Errorf("algorithm %q is not RS256", header.Alg)
	case header.Kid != s.keyID():
		return errors.New("unknown kid")
	case rsa.VerifyPKCS1v15(&s.key.PublicKey, crypto.SHA256, sum[:], signature) != nil:
		return errors.New("invalid JWT signature")
	case claims.Iss != clientEmail:
		return fmt.Errorf("unknown iss %q", claims.Iss)
	case claims.Aud != audience:
		return fmt.Errorf("aud is %q, not %q", claims.Aud, audience)
	case !slices.Contains(strings.Fields(claims.Scope), messagingScope):
		return fmt.Errorf("scope %q does not allow messages", claims.Scope)
	case issued.After(now.Add(clockSkew)):
		return errors.New("iat is in the future")
	case expires.Before(now.Add(-clockSkew)):
		return errors.New("exp is in the past")
	case expires.Sub(issued) > longestGrant:
		return errors.New("exp is more than an hour after iat")
	}
	return nil
}

func decodePart(part string, into any) bool {
	text, err := base64.RawURLEncoding.DecodeString(part)
	return err == nil && json.Unmarshal(text, into) == nil
}

// authorised reports whether the request has a valid access token.
func (s *Simulator) authorised(r *http.Request) bool {
	token, found := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return found && time.Now().Before(s.tokens[token])
}
