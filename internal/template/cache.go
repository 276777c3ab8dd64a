package template

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// A Source gets templates (Client).
type Source interface {
	Get(ctx context.Context, code, language string) (Template, error)
}

// Cache keeps the templates of a source for a while, and for longer if the source cannot
// be asked. Those who want the same one at the same time share one call, which ends when
// none of them waits any more. It is safe for concurrent use.
type Cache struct {
	// OnLookup is called for each Get that gets an answer, with where it came from. It
	// may be nil, and is not changed after the first Get.
	OnLookup func(Lookup)

	source Source
	fresh  time.Duration // a template is used without asking
	stale  time.Duration // and for this much longer if asking fails

	mutex   sync.Mutex
	entries map[key]*entry
}

// A Lookup says where an answer came from.
type Lookup string

// The lookups.
const (
	Hit   Lookup = "hit"   // the cache knew: a fresh template, or that there is none
	Miss  Lookup = "miss"  // the source was asked
	Stale Lookup = "stale" // the source could not be asked, so an old template has to do
)

// Lookups lists every lookup.
func Lookups() []Lookup { return []Lookup{Hit, Miss, Stale} }

const (
	// maxEntries bounds the cache: codes come from outside.
	maxEntries = 5000
	// pause is how long nobody asks again after an answer that was no template, or
	// while there is a stale one.
	pause = time.Second
	// CallTimeout is how long the source may take for a template, with all its tries: less
	// than a push waits for it.
	CallTimeout = 50 * time.Second
)

type key struct{ code, language string }

type entry struct {
	template Template
	at       time.Time // of the template; zero if there is none
	err      error     // of the last call, nil if it brought the template
	failedAt time.Time
	call     *call // under way, or nil
}

// has says whether there is a template of less than that age.
func (e *entry) has(age time.Duration) bool { return !e.at.IsZero() && time.Since(e.at) < age }

// A call of the source, for everybody who wants the same template.
type call struct {
	waiting int
	cancel  context.CancelFunc
	done    chan struct{} // closed when the result is there
	// What everybody gets.
	template Template
	err      error
	lookup   Lookup
}

// NewCache returns an empty cache.
func NewCache(source Source, fresh, stale time.Duration) *Cache {
	return &Cache{source: source, fresh: fresh, stale: stale, entries: make(map[key]*entry)}
}

// Get returns a fresh template, or a stale one if the source cannot be asked. Otherwise
// the error is the source's, or the context's.
func (c *Cache) Get(ctx context.Context, code, language string) (Template, error) {
	k := key{code, language}
	c.mutex.Lock()
	e, found := c.entries[k]
	if !found {
		c.makeRoom()
		e = &entry{}
		c.entries[k] = e
	}
	if template, lookup, err := c.known(e); lookup != "" {
		c.mutex.Unlock()
		c.looked(lookup)
		return template, err
	}
	if e.call == nil {
		// Not for the caller alone: others may want the same before it is there.
		calling, cancel := context.WithTimeout(context.WithoutCancel(ctx), CallTimeout)
		e.call = &call{cancel: cancel, done: make(chan struct{})}
		go c.ask(calling, k, e, e.call)
	}
	shared := e.call
	shared.waiting++
	c.mutex.Unlock()

	select {
	case <-shared.done:
		c.looked(shared.lookup)
		return shared.template, shared.err
	case <-ctx.Done():
		c.leave(e, shared)
		return Template{}, context.Cause(ctx)
	}
}

func (c *Cache) looked(lookup Lookup) {
	if c.OnLookup != nil {
		c.OnLookup(lookup)
	}
}

// known is what can be said without asking; lookup is "" if that is nothing.
func (c *Cache) known(e *entry) (template Template, lookup Lookup, err error) {
	var unusable *Unusable
	failed := e.err != nil && time.Since(e.failedAt) < pause
	switch {
	case e.err == nil && e.has(c.fresh):
		return e.template, Hit, nil
	case failed && e.has(c.fresh+c.stale):
		return e.template, Stale, nil
	case failed && errors.As(e.err, &unusable):
		return Template{}, Hit, e.err
	default:
		return Template{}, "", nil
	}
}

// ask makes the call.
func (c *Cache) ask(ctx context.Context, k key, e *entry, shared *call) {
	defer shared.cancel()
	template, err := c.fromSource(ctx, k)
	c.mutex.Lock()
	defer c.mutex.Unlock()
	defer close(shared.done)
	if e.call == shared { // else nobody waits, and there may be another one
		e.call = nil
		shared.template, shared.lookup, shared.err = c.keep(e, template, err)
	}
}

// fromSource makes an error of a panic, which in this goroutine would end the process.
func (c *Cache) fromSource(ctx context.Context, k key) (template Template, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = &Unusable{Reason: fmt.Sprintf("was not understood: panic: %v", cause)}
		}
	}()
	return c.source.Get(ctx, k.code, k.language)
}

// keep notes the result of a call, and returns what those get who wait for it.
func (c *Cache) keep(e *entry, template Template, err error) (Template, Lookup, error) {
	if err == nil {
		*e = entry{template: template, at: time.Now()}
		return template, Miss, nil
	}
	var unusable *Unusable
	if errors.As(err, &unusable) && unusable.Gone {
		*e = entry{}
	}
	e.err, e.failedAt = err, time.Now()
	if e.has(c.fresh + c.stale) {
		return e.template, Stale, nil
	}
	return Template{}, Miss, err
}

// leave is for those who do not wait for the end of a call. The last one ends it.
func (c *Cache) leave(e *entry, shared *call) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	shared.waiting--
	if shared.waiting == 0 && e.call == shared {
		e.call = nil
		shared.cancel()
	}
}

// makeRoom forgets something that nobody waits for, if there is too much; first what has
// no template that can still be used.
func (c *Cache) makeRoom() {
	if len(c.entries) < maxEntries {
		return
	}
	var victim *key
	for k, e := range c.entries {
		if e.call != nil {
			continue
		}
		victim = &k
		if !e.has(c.fresh + c.stale) {
			break
		}
	}
	if victim != nil {
		delete(c.entries, *victim)
	}
}
