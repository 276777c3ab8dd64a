package fcm

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pushq/handlers"
	"pushq/internal/exchange"
	"pushq/tasks"
)

// Whatever comes as an answer, there is a verdict. Only Firebase's own words drop a token, end
// a push or deliver one.
func FuzzAnswers(f *testing.F) {
	for _, body := range []string{
		"", "null", "[]", "{}", "<html>", "\xff\x00", `{"results":[{"message_id":"1:2"}]}`, `{"results":[{"error":"NotRegistered"}]}`,
		`{"name":"projects/p/messages/1"}`, `{"name":"x"}`, "\ufeff{}", `[{"name":"projects/p/messages/1"}]`, `{"message_id":1e99}`,
		`{"results":[{"message_id":1,"registration_id":"new"}]}`, `{"results":[{"message_id":null,"registration_id":7}]}`,
		`{"error":{"status":404,"details":{"@type":"` + fcmErrorType + `","errorCode":"UNREGISTERED"}}}`,
		`{"error":{"details":[7,{"@type":["x"]},{"@type":"` + fcmErrorType + `","errorCode":"UNREGISTERED"}]}}`,
		`{"results":[null]}`, `{"results":[{"error":"Unavailable"},{}]}`, `{"results":[{"error":1}]}`, `{"error":"text"}`, `{"error":{"details":null}}`,
		`{"error":{"code":404,"message":"m","status":"NOT_FOUND","details":[{"@type":"` + fcmErrorType + `","errorCode":"UNREGISTERED"}]}}`,
		`{"error":{"message":"not a valid FCM registration token","details":[{"@type":"` + fcmErrorType + `","errorCode":"INVALID_ARGUMENT"}]}}`,
		`{"error":{"details":[{"@type":"` + apnsErrorType + `","statusCode":410,"reason":"Unregistered","fieldViolations":[{"field":"f","description":"d"},null]}]}}`,
	} {
		for _, status := range []int{101, 200, 302, 400, 401, 403, 404, 429, 500, 503, 599} {
			f.Add(status, "7", []byte(body), status == 200)
		}
	}
	provider := &Provider{Options: Options{MaxRetryAfter: 5 * time.Minute, DropMalformed: true}}
	f.Fuzz(func(t *testing.T, status int, retryAfter string, body []byte, cut bool) {
		answer := exchange.Answer{Status: status, Header: http.Header{"Retry-After": {retryAfter}}, Body: body, Cut: cut}
		for mode, judge := range map[string]func(exchange.Answer) handlers.Outcome{V1: provider.judgeV1, Legacy: provider.judgeLegacy} {
			outcome := judge(answer)
			require.GreaterOrEqual(t, outcome.RetryAfter, time.Duration(0), mode)
			require.LessOrEqual(t, outcome.RetryAfter, provider.MaxRetryAfter, mode)
			switch outcome.Verdict {
			case handlers.Delivered:
				require.True(t, exchange.Success(status), mode)
				require.True(t, successShape[mode](t, answer.Text()), "%s: %q", mode, body)
				require.True(t, outcome.Replacement == "" || mode == Legacy)
				outcome.Replacement = ""
				require.Equal(t, handlers.Outcome{}, outcome, mode)
			case handlers.Retryable, handlers.Permanent:
				require.Equal(t, tasks.ErrorFCM, outcome.ErrorType, mode)
				require.Equal(t, status, outcome.ErrorCode, mode)
			default:
				t.Fatalf("%s: %d %q has the verdict %v", mode, status, body, outcome.Verdict)
			}
			if _, isObject := answer.Object(); outcome.Verdict == handlers.Permanent && mode == V1 {
				require.True(t, isObject, "ended by %d %q", status, body)
			}
			if outcome.DropToken {
				require.Equal(t, handlers.Permanent, outcome.Verdict, mode)
				require.False(t, outcome.ServiceFailed || outcome.Throttled, mode)
			}
			if outcome.Verdict == handlers.Retryable && outcome.Throttled {
				require.Equal(t, http.StatusTooManyRequests, status, mode)
			}
		}
		_ = tokenRefused(answer)
	})
}

// successShape says, more plainly than the provider, whether a text is Firebase's success.
var successShape = map[string]func(t *testing.T, text []byte) bool{
	V1: func(t *testing.T, text []byte) bool {
		var body map[string]any
		require.NoError(t, json.Unmarshal(text, &body))
		name, _ := body["name"].(string)
		return strings.HasPrefix(name, "projects/") && strings.Contains(name, "/messages/")
	},
	Legacy: func(t *testing.T, text []byte) bool {
		var body map[string]json.RawMessage
		require.NoError(t, json.Unmarshal(text, &body))
		if results, listed := body["results"]; listed {
			var all []map[string]json.RawMessage
			require.NoError(t, json.Unmarshal(results, &all))
			require.Len(t, all, 1)
			body = all[0]
		}
		id := string(body["message_id"])
		return strings.HasPrefix(id, `"`) && id != `""` || strings.ContainsAny(id[:1], "-0123456789")
	},
}
