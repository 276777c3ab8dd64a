package repeats

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// A written log has lines without their times.
type written struct {
	mutex sync.Mutex
	text  bytes.Buffer
}

func (w *written) Write(text []byte) (int, error) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	return w.text.Write(text)
}

// take returns the lines since the last call.
func (w *written) take() []string {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	text := strings.TrimSuffix(w.text.String(), "\n")
	w.text.Reset()
	if text == "" {
		return nil
	}
	return strings.Split(text, "\n")
}

// remembered counts the kinds. Without one there is no timer.
func (h *Handler) remembered() int {
	h.seen.mutex.Lock()
	defer h.seen.mutex.Unlock()
	if len(h.seen.kinds) == 0 && h.seen.timer != nil {
		return -1
	}
	return len(h.seen.kinds)
}

func start() (*Handler, *slog.Logger, *written) {
	out := new(written)
	handler := New(slog.NewTextHandler(out, &slog.HandlerOptions{Level: slog.LevelDebug, ReplaceAttr: func(_ []string, attr slog.Attr) slog.Attr {
		if attr.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return attr
	}}))
	return handler, slog.New(handler), out
}

func TestRepeatedErrorsAreToldOnceASecond(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		handler, log, out := start()
		defer handler.Close()
		for number := range 9000 { // 3,000 a second
			log.Error("request failed", slog.String("route", "/push"), slog.Any("error", fmt.Errorf("dial tcp 127.0.0.1:%d: connection refused", 30000+number)))
			time.Sleep(time.Second / 3000)
			if number == 100 {
				require.Equal(t, []string{`level=ERROR msg="request failed" route=/push error="dial tcp 127.0.0.1:30000: connection refused"`}, out.take(), "the first one at once")
			}
		}
		time.Sleep(5 * time.Second)
		lines := out.take()
		require.LessOrEqual(t, len(lines), 4)
		total := 1
		for _, line := range lines {
			var count int
			_, err := fmt.Sscanf(line[strings.LastIndex(line, Attribute):], Attribute+"=%d", &count)
			require.NoError(t, err, line)
			require.LessOrEqual(t, count, 3001)
			total += count
		}
		require.Equal(t, 9000, total, "%q", lines)
		require.Contains(t, lines[len(lines)-1], "127.0.0.1:38999", "the latest stands for all")

		log.Error("request failed", slog.String("route", "/push"), slog.Any("error", errors.New("dial tcp 127.0.0.1:1: connection refused")))
		require.Len(t, out.take(), 1, "after a rest it is told at once again")
	})
}

func TestWhatIsNotAlikeIsToldAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		handler, log, out := start()
		log.Warn("a")
		log.Error("a")
		log.Error("b")
		log.Error("b", slog.Any("error", errors.New("refused")))
		log.Error("b", slog.Any("error", errors.New("timeout")))
		log.Warn("asynq", slog.String("text", "Dequeue error: EOF"))
		log.With(slog.String("queue", "swrve")).Error("b")
		log.With(slog.String("queue", "fcm")).Error("b")
		log.WithGroup("fcm").Error("b", slog.Int("n", 1))
		log.Warn("operator", slog.String("action", "pause"), slog.String("channel", "swrve"))
		log.Warn("operator", slog.String("action", "pause"), slog.String("channel", "fcm"))
		require.Len(t, out.take(), 11)
		handler.Close()
		require.Empty(t, out.take())
	})
}

func TestWhatIsNoErrorPassesAsItIs(t *testing.T) {
	t.Parallel()
	handler, log, out := start()
	defer handler.Close()
	for range 100 {
		log.Info("attempt", slog.String("outcome", "retry"))
		log.Debug("go-redis", slog.String("text", "retry"))
	}
	require.Len(t, out.take(), 200)
}

func TestLoggersKeepWhatIsTheirs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		handler, log, out := start()
		defer handler.Close()
		swrve, grouped := log.With(slog.String("queue", "swrve")), log.With(slog.String("queue", "fcm")).WithGroup("push")
		for number := range 3 {
			swrve.Warn("late", slog.Int("n", number))
			grouped.Warn("late", slog.Int("n", number))
			time.Sleep(time.Millisecond)
		}
		require.Equal(t, []string{"level=WARN msg=late queue=swrve n=0", "level=WARN msg=late queue=fcm push.n=0"}, out.take())
		time.Sleep(interval + time.Millisecond)
		require.ElementsMatch(t, []string{"level=WARN msg=late queue=swrve n=2 repeated=2", "level=WARN msg=late queue=fcm push.n=2 push.repeated=2"}, out.take())
		swrve.Warn("late", slog.Int("n", 3))
		require.Empty(t, out.take())
		time.Sleep(interval + time.Millisecond)
		require.Equal(t, []string{"level=WARN msg=late queue=swrve n=3"}, out.take(), "a single one needs no number")
	})
}

func TestCloseTellsWhatIsLeft(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		handler, log, out := start()
		for range 5 {
			log.Error("stopping badly")
		}
		require.Len(t, out.take(), 1)
		handler.Close()
		require.Equal(t, []string{`level=ERROR msg="stopping badly" repeated=4`}, out.take())
		for range 3 {
			log.Error("stopping badly")
		}
		require.Len(t, out.take(), 3, "nothing is kept any more")
		handler.Close()
		require.Empty(t, out.take())
	})
}

// Errors that all differ fill neither the memory nor the log.
func TestKindsAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		handler, log, out := start()
		defer handler.Close()
		for number := range 10_000 {
			letters := strings.Map(func(r rune) rune { return r + 'a' - '0' }, fmt.Sprint(number))
			log.Error("failed", slog.Any("error", errors.New(letters)))
		}
		require.Len(t, out.take(), maxKinds+1)
		require.Equal(t, maxKinds+1, handler.remembered())
		time.Sleep(interval + time.Millisecond)
		require.Equal(t, []string{fmt.Sprintf("level=ERROR msg=failed error=jjjj repeated=%d", 10_000-maxKinds-1)}, out.take())
		time.Sleep(5 * time.Second)
		require.Zero(t, handler.remembered(), "forgotten after a rest")
	})
}

func TestManyAtATime(t *testing.T) {
	t.Parallel()
	handler, log, out := start()
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			for range 500 {
				log.With(slog.String("queue", "swrve")).Error("failed")
			}
		})
	}
	all.Wait()
	handler.Close()
	total := 0
	for _, line := range out.take() {
		count := 1
		if place := strings.LastIndex(line, Attribute); place >= 0 {
			_, err := fmt.Sscanf(line[place:], Attribute+"=%d", &count)
			require.NoError(t, err)
		}
		total += count
	}
	require.Equal(t, 10_000, total)
}

func TestWithoutNumbers(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"": "", "refused": "refused", "127.0.0.1:80: refused": "#.#.#.#:#: refused",
		"write push 01JBX0: EOF": "write push #: EOF", "für 3 µs!": "für # µs!", "(a1)": "(#)", "7": "#",
	} {
		require.Equal(t, want, withoutNumbers(text), text)
	}
}
