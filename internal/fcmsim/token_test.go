package fcmsim

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// sign makes an assertion by hand: the simulator must not be tested by the library that
// pushq signs with alone.
func sign(t *testing.T, header, claims map[string]any) string {
	part := func(value map[string]any) string {
		text, err := json.Marshal(value)
		require.NoError(t, err)
		return base64.RawURLEncoding.EncodeToString(text)
	}
	signed := part(header) + "." + part(claims)
	sum := sha256.Sum256([]byte(signed))
	signature, err := rsa.SignPKCS1v15(rand.Reader, serviceKey(), crypto.SHA256, sum[:])
	require.NoError(t, err)
	return signed + "." + base64.RawURLEncoding.EncodeToString(signature)
}

func TestAssertionsAreChecked(t *testing.T) {
	t.Parallel()
	simulator, base := start(t, Config{TokenLife: 42 * time.Second})
	client := newClient(t)
	now := time.Now().Unix()
	header := map[string]any{"alg": "RS256", "typ": "JWT", "kid": simulator.keyID()}
	claims := map[string]any{
		"iss": clientEmail, "scope": messagingScope, "aud": base + "/token", "iat": now - 10, "exp": now + 3590,
	}
	with := func(of map[string]any, key string, value any) map[string]any {
		changed := maps.Clone(of)
		changed[key] = value
		return changed
	}
	good, other := sign(t, header, claims), sign(t, header, with(claims, "exp", now+3000))
	const signatureLength = 342 // of 2,048 bits in base64
	for _, test := range []struct {
		name, grant, assertion string
		problem                string
	}{
		{"good", grantType, good, ""},
		{"two scopes", grantType, sign(t, header, with(claims, "scope", "other "+messagingScope)), ""},
		{"other grant", "password", good, "unsupported_grant_type"},
		{"no assertion", grantType, "", "three parts"},
		{"not base64", grantType, "a.b.!", "malformed"},
		{"not JSON", grantType, "YQ.YQ.YQ", "malformed"},
		{"no signature", grantType, good[:len(good)-300], "signature"},
		{"other claims than signed", grantType, other[:len(other)-signatureLength] + good[len(good)-signatureLength:], "signature"},
		{"HS256", grantType, sign(t, with(header, "alg", "HS256"), claims), "RS256"},
		{"none", grantType, sign(t, with(header, "alg", "none"), claims), "RS256"},
		{"other key", grantType, sign(t, with(header, "kid", "x"), claims), "kid"},
		{"other issuer", grantType, sign(t, header, with(claims, "iss", "me")), "iss"},
		{"other audience", grantType, sign(t, header, with(claims, "aud", "https://oauth2.googleapis.com/token")), "aud"},
		{"other scope", grantType, sign(t, header, with(claims, "scope", "email")), "scope"},
		{"from the future", grantType, sign(t, header, with(with(claims, "iat", now+600), "exp", now+700)), "iat"},
		{"over", grantType, sign(t, header, with(with(claims, "iat", now-4000), "exp", now-600)), "exp"},
		{"too long", grantType, sign(t, header, with(claims, "exp", now+3601)), "an hour"},
	} {
		response, err := client.PostForm(base+"/token", url.Values{"grant_type": {test.grant}, "assertion": {test.assertion}})
		require.NoError(t, err)
		var answer map[string]any
		require.NoError(t, json.NewDecoder(response.Body).Decode(&answer), test.name)
		require.NoError(t, response.Body.Close())
		if test.problem == "" {
			require.Equal(t, http.StatusOK, response.StatusCode, test.name)
			require.Equal(t, "Bearer", answer["token_type"])
			require.EqualValues(t, 42, answer["expires_in"])
			request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, base, nil)
			require.NoError(t, err)
			request.Header.Set("Authorization", "Bearer "+answer["access_token"].(string))
			require.True(t, simulator.authorised(request))
			continue
		}
		require.Equal(t, http.StatusBadRequest, response.StatusCode, test.name)
		if test.name != "other grant" {
			require.Equal(t, "invalid_grant", answer["error"], test.name)
		}
		require.Contains(t, answer["error"].(string)+" "+answer["error_description"].(string), test.problem, test.name)
	}
	require.Equal(t, 17, simulator.Stats().TokenRequests)
	require.Equal(t, 2, simulator.Stats().TokensIssued)
}

func TestAccessTokensEnd(t *testing.T) {
	t.Parallel()
	simulator, _ := start(t, Config{})
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://simulator/", nil)
	require.NoError(t, err)
	request.Header.Set("Authorization", authorise(simulator))
	require.True(t, simulator.authorised(request))
	simulator.tokens["known"] = time.Now().Add(-time.Second)
	require.False(t, simulator.authorised(request))
	_ = authorise(simulator)
	simulator.Revoke()
	require.False(t, simulator.authorised(request))
}

func TestTokenFaults(t *testing.T) {
	t.Parallel()
	simulator, base := start(t, Config{})
	client := newClient(t)
	for fault, want := range map[string]int{"500": 500, "503": 503, "429": 429, TokenInvalidGrant: 400, TokenIsAPage: 200} {
		require.NoError(t, simulator.SetToken(fault, 0))
		response, _ := call(t, client, http.MethodPost, base+"/token", "", "")
		require.Equal(t, want, response.StatusCode, fault)
	}
	require.NoError(t, simulator.SetToken(TokenResets, 0))
	require.Error(t, hang(t.Context(), client, base+"/token", "", ""))
	require.NoError(t, simulator.SetToken(TokenHangs, 0))
	impatient := newClient(t)
	impatient.Timeout = 50 * time.Millisecond
	require.ErrorContains(t, hang(t.Context(), impatient, base+"/token", "", ""), "exceeded")
	for _, mistake := range []string{"200", "600", "5000", "50x", "sulk"} {
		require.Error(t, simulator.SetToken(mistake, 0), mistake)
	}
	require.Zero(t, simulator.Stats().TokensIssued)
}
