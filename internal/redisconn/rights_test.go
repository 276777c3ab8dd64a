package redisconn

import (
	"errors"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"pushq/internal/testenv"
)

// documentedRights are the words of the ACL line of docs/redis.md from the rights on.
func documentedRights(t *testing.T) []string {
	t.Helper()
	document, err := os.ReadFile("../../docs/redis.md")
	require.NoError(t, err)
	line := regexp.MustCompile("```acl\nuser pushq on >PASSWORD (.*)\n```").FindSubmatch(document)
	require.NotNil(t, line, "the ACL line")
	return strings.Fields(string(line[1]))
}

// Each right of the documented ones is missed by its name, and nothing is written.
func TestEachMissingRightIsNamed(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t)
	admin := server.Client(t)
	others := []string{"asynq:rights", "idempotency:rights", "circuit:rights"}
	check := func(streams bool, rights ...string) error {
		arguments := []any{"ACL", "SETUSER", "pushq", "reset", "on", ">p"}
		for _, right := range rights {
			arguments = append(arguments, right)
		}
		require.NoError(t, admin.Do(t.Context(), arguments...).Err())
		return CheckRights(t.Context(), open(t, "redis://pushq:p@"+server.Addr()).Read, streams, "pushq:{swrve}:rights", others...)
	}
	documented := documentedRights(t)
	require.NoError(t, check(true, documented...))

	// Those that nothing is accepted or sent without are noticed by themselves, and without
	// memory|usage only the dashboard suffers.
	untried := map[string]bool{
		"-@all": true, "+ping": true, "+info": true, "+select": true, "+subscribe": true, "+unsubscribe": true, "+memory|usage": true,
		"&asynq:*": true, "~pushq:*": true,
	}
	for place, right := range documented {
		if untried[right] {
			continue
		}
		rights := append(append([]string{}, documented[:place]...), documented[place+1:]...)
		err := check(true, rights...)
		var missing *MissingRightsError
		require.True(t, errors.As(err, &missing), "%s: %v", right, err)
		if strings.HasPrefix(right, "&") {
			right = "+publish"
		}
		require.Equal(t, []string{right}, missing.Rights)
		require.ErrorContains(t, Explain(err), "ACL SETUSER user "+right)
	}
	require.Zero(t, admin.DBSize(t.Context()).Val(), "nothing is written")

	var withoutStreams []string
	for _, right := range documented {
		if !strings.HasPrefix(right, "+x") {
			withoutStreams = append(withoutStreams, right)
		}
	}
	require.NoError(t, check(false, withoutStreams...))
	require.ErrorContains(t, check(true, withoutStreams...), "+xadd +xlen")
}

func TestRightsAtARedisThatIsGone(t *testing.T) {
	t.Parallel()
	client := open(t, "redis://"+testenv.FreeAddress(t)).Read
	err := CheckRights(t.Context(), client, true, "pushq:{swrve}:rights")
	require.Error(t, err)
	_, missing := errors.AsType[*MissingRightsError](err)
	require.False(t, missing)
}

// Without MULTI the commands would be carried out, so they are not tried.
func TestNoRightsAreTriedWithoutMulti(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t, "--rename-command", "MULTI", "gone")
	require.NoError(t, CheckRights(t.Context(), open(t, server.URL()).Read, true, "pushq:{swrve}:rights", "asynq:rights"))
	require.Zero(t, server.Client(t).DBSize(t.Context()).Val(), "nothing is written")
}
