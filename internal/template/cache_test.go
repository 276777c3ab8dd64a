package template

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// asked is a source that a test answers for, and counts its calls.
type asked struct {
	calls  atomic.Int64
	answer func(ctx context.Context, code, language string) (Template, error)
}

func (a *asked) Get(ctx context.Context, code, language string) (Template, error) {
	a.calls.Add(1)
	return a.answer(ctx, code, language)
}

// always answers with the title.
func always(title string) func(context.Context, string, string) (Template, error) {
	return func(_ context.Context, code, _ string) (Template, error) {
		return Template{Code: code, Content: Content{Title: title}}, nil
	}
}

func failing(err error) func(context.Context, string, string) (Template, error) {
	return func(context.Context, string, string) (Template, error) { return Template{}, err }
}

var (
	errAway   = &Unavailable{cause: errors.New("away")}
	errGone   = &Unusable{Gone: true, Reason: "has no template"}
	errHTML   = &Unusable{Reason: "answered what is not a template"}
	errOthers = errors.New("not the service's")
)

const (
	testFresh = time.Minute
	testStale = time.Hour
)

// title is what the cache has for "welcome" now.
func title(t *testing.T, cache *Cache) string {
	t.Helper()
	template, err := cache.Get(t.Context(), "welcome", "en")
	require.NoError(t, err)
	return template.Content.Title
}

func TestCacheKeepsWhatIsFresh(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		source := &asked{answer: always("one")}
		cache := NewCache(source, testFresh, testStale)
		require.Equal(t, "one", title(t, cache))
		source.answer = always("two")
		time.Sleep(testFresh - time.Nanosecond)
		require.Equal(t, "one", title(t, cache))
		require.EqualValues(t, 1, source.calls.Load())
		time.Sleep(time.Nanosecond)
		require.Equal(t, "two", title(t, cache))
		require.Equal(t, "two", title(t, cache))
		require.EqualValues(t, 2, source.calls.Load())

		for _, other := range []key{{"welcome", "de"}, {"Welcome", "en"}, {"welcomee", "n"}} {
			_, err := cache.Get(t.Context(), other.code, other.language)
			require.NoError(t, err)
		}
		require.EqualValues(t, 5, source.calls.Load(), "each is a template of its own")
	})
}

func TestCacheWithoutFreshness(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		source := &asked{answer: always("one")}
		cache := NewCache(source, 0, 0)
		require.Equal(t, "one", title(t, cache))
		require.Equal(t, "one", title(t, cache))
		require.EqualValues(t, 2, source.calls.Load())
		source.answer = failing(errAway)
		_, err := cache.Get(t.Context(), "welcome", "en")
		require.ErrorIs(t, err, errAway)
	})
}

func TestCacheUsesAStaleTemplateIfThereIsAnError(t *testing.T) {
	t.Parallel()
	for _, trouble := range []error{errAway, errHTML, errOthers} {
		synctest.Test(t, func(t *testing.T) {
			source := &asked{answer: always("old")}
			cache := NewCache(source, testFresh, testStale)
			require.Equal(t, "old", title(t, cache))
			source.answer = failing(trouble)
			time.Sleep(testFresh)
			for range 10 {
				require.Equal(t, "old", title(t, cache))
			}
			require.EqualValues(t, 2, source.calls.Load(), "and asks once a second at most")
			time.Sleep(pause)
			require.Equal(t, "old", title(t, cache))
			require.EqualValues(t, 3, source.calls.Load())

			time.Sleep(testStale - pause - time.Nanosecond)
			require.Equal(t, "old", title(t, cache))
			time.Sleep(time.Nanosecond)
			_, err := cache.Get(t.Context(), "welcome", "en")
			require.ErrorIs(t, err, trouble, "it is too old")

			source.answer = always("new")
			time.Sleep(pause)
			require.Equal(t, "new", title(t, cache))
		})
	}
}

func TestCacheForgetsWhatIsGone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		source := &asked{answer: always("old")}
		cache := NewCache(source, testFresh, testStale)
		require.Equal(t, "old", title(t, cache))
		time.Sleep(testFresh)
		source.answer = failing(errGone)
		for range 3 {
			_, err := cache.Get(t.Context(), "welcome", "en")
			require.ErrorIs(t, err, errGone)
		}
		require.EqualValues(t, 2, source.calls.Load())
		time.Sleep(pause)
		source.answer = failing(errAway)
		_, err := cache.Get(t.Context(), "welcome", "en")
		require.ErrorIs(t, err, errAway, "nothing stale is left")
	})
}

func TestCacheKeepsErrorsForASecond(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		err   error
		calls int64 // for 100 at one time, one after the other
	}{{errGone, 1}, {errHTML, 1}, {errAway, 100}, {errOthers, 100}} {
		synctest.Test(t, func(t *testing.T) {
			source := &asked{answer: failing(test.err)}
			cache := NewCache(source, testFresh, testStale)
			for range 100 {
				_, err := cache.Get(t.Context(), "welcome", "en")
				require.ErrorIs(t, err, test.err)
			}
			require.Equal(t, test.calls, source.calls.Load())
			time.Sleep(pause)
			source.answer = always("here")
			require.Equal(t, "here", title(t, cache))
		})
	}
}

func TestCacheAsksOnceForMany(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		source := &asked{answer: func(ctx context.Context, code, language string) (Template, error) {
			time.Sleep(time.Second)
			return always("one")(ctx, code, language)
		}}
		cache := NewCache(source, testFresh, testStale)
		var callers sync.WaitGroup
		for range 100 {
			callers.Go(func() {
				template, err := cache.Get(t.Context(), "welcome", "en")
				if err != nil || template.Content.Title != "one" {
					t.Errorf("%v, %v", template, err)
				}
			})
		}
		callers.Wait()
		require.EqualValues(t, 1, source.calls.Load())
	})
}

// waiting is a source that does not answer before the test says so.
type waiting struct {
	release chan string // the title
	ended   chan error  // why a call ended without it
	late    chan string // the title from such a call, as if it had not noticed
}

func newWaiting() *waiting {
	return &waiting{release: make(chan string), ended: make(chan error, 1), late: make(chan string)}
}

func (w *waiting) Get(ctx context.Context, code, language string) (Template, error) {
	select {
	case title := <-w.release:
		return always(title)(ctx, code, language)
	case <-ctx.Done():
		w.ended <- context.Cause(ctx)
		return always(<-w.late)(ctx, code, language)
	}
}

func TestCacheGoesOnForThoseWhoStillWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		source := newWaiting()
		cache := NewCache(source, testFresh, testStale)
		first, leave := context.WithCancelCause(t.Context())
		left, second := make(chan error), make(chan Template)
		go func() {
			_, err := cache.Get(first, "welcome", "en")
			left <- err
		}()
		synctest.Wait()
		go func() {
			template, _ := cache.Get(t.Context(), "welcome", "en")
			second <- template
		}()
		synctest.Wait()
		leave(errOthers)
		require.ErrorIs(t, <-left, errOthers, "at once")
		source.release <- "one"
		require.Equal(t, "one", (<-second).Content.Title)
		require.Empty(t, source.ended)
		require.Equal(t, "one", title(t, cache))
	})
}

func TestCacheEndsACallThatNobodyWaitsFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		source := newWaiting()
		cache := NewCache(source, testFresh, testStale)
		ctx, leave := context.WithCancel(t.Context())
		var callers sync.WaitGroup
		for range 3 {
			callers.Go(func() { _, _ = cache.Get(ctx, "welcome", "en") })
		}
		synctest.Wait()
		leave()
		callers.Wait()
		require.ErrorIs(t, <-source.ended, context.Canceled)

		// The next ones have a call of their own, whatever becomes of the old one.
		found := make(chan string)
		get := func() {
			template, _ := cache.Get(t.Context(), "welcome", "en")
			found <- template.Content.Title
		}
		go get()
		synctest.Wait()
		source.late <- "too late"
		synctest.Wait()
		go get()
		synctest.Wait()
		source.release <- "one"
		require.Equal(t, "one", <-found)
		require.Equal(t, "one", <-found)
		require.Equal(t, "one", title(t, cache))
	})
}

func TestCacheGivesACallUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		source := &asked{answer: func(ctx context.Context, _, _ string) (Template, error) {
			<-ctx.Done()
			return Template{}, context.Cause(ctx)
		}}
		began := time.Now()
		_, err := NewCache(source, testFresh, testStale).Get(t.Context(), "welcome", "en")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, CallTimeout, time.Since(began))
	})
}

func TestCacheSurvivesAPanic(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		source := &asked{answer: func(context.Context, string, string) (Template, error) { panic("boom") }}
		cache := NewCache(source, testFresh, testStale)
		_, err := cache.Get(t.Context(), "welcome", "en")
		var unusable *Unusable
		require.ErrorAs(t, err, &unusable)
		require.ErrorContains(t, err, "boom")
		time.Sleep(pause)
		source.answer = always("one")
		require.Equal(t, "one", title(t, cache))
	})
}

func TestCacheIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		source := &asked{answer: func(ctx context.Context, code, language string) (Template, error) {
			if code == "welcome" {
				return always("kept")(ctx, code, language)
			}
			return Template{}, errGone
		}}
		cache := NewCache(source, testFresh, testStale)
		require.Equal(t, "kept", title(t, cache))
		for number := range 2 * maxEntries {
			_, err := cache.Get(t.Context(), fmt.Sprint("wrong", number), "en")
			require.ErrorIs(t, err, errGone)
			require.LessOrEqual(t, len(cache.entries), maxEntries)
		}
		calls := source.calls.Load()
		require.Equal(t, "kept", title(t, cache))
		require.Equal(t, calls, source.calls.Load(), "wrong codes do not push templates out")

		source.answer = always("many")
		for number := range maxEntries + 100 {
			_, err := cache.Get(t.Context(), fmt.Sprint("right", number), "en")
			require.NoError(t, err)
			require.LessOrEqual(t, len(cache.entries), maxEntries)
		}
	})
}

func TestCacheUnderManyCallers(t *testing.T) {
	t.Parallel()
	source := &asked{}
	source.answer = func(ctx context.Context, code, language string) (Template, error) {
		if source.calls.Load()%3 == 0 {
			return Template{}, errAway
		}
		return always(code+language)(ctx, code, language)
	}
	cache := NewCache(source, time.Microsecond, time.Hour)
	var callers sync.WaitGroup
	for caller := range 16 {
		callers.Go(func() {
			for number := range 500 {
				ctx, cancel := context.WithCancel(t.Context())
				if number%7 == 0 {
					cancel()
				}
				code, language := fmt.Sprint((caller+number)%5), fmt.Sprint(number%2)
				template, err := cache.Get(ctx, code, language)
				if err == nil && template.Content.Title != code+language {
					t.Errorf("%s in %s has title %q", code, language, template.Content.Title)
				}
				cancel()
			}
		})
	}
	callers.Wait()
}

func TestLookupsAreTold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		source := &asked{answer: always("old")}
		cache := NewCache(source, testFresh, testStale)
		var got []Lookup
		cache.OnLookup = func(lookup Lookup) { got = append(got, lookup) }
		look := func(code string) {
			t.Helper()
			_, _ = cache.Get(t.Context(), code, "en")
		}
		look("welcome")
		look("welcome")
		time.Sleep(testFresh)
		source.answer = failing(errAway)
		look("welcome") // asks, and gets the old one
		look("welcome") // does not ask
		look("another")
		source.answer = failing(errGone)
		look("nothing")
		look("nothing")
		require.Equal(t, []Lookup{Miss, Hit, Stale, Stale, Miss, Miss, Hit}, got)
		for _, lookup := range got {
			require.Contains(t, Lookups(), lookup)
		}

		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		source.answer = func(ctx context.Context, _, _ string) (Template, error) {
			<-ctx.Done()
			return Template{}, ctx.Err()
		}
		_, err := cache.Get(ctx, "left", "en")
		require.ErrorIs(t, err, context.Canceled)
		require.Len(t, got, 7, "there was no answer")
	})
}
