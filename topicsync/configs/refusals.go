package configs

import (
	"sync"
	"time"
)

const (
	// refusedFor is how long a setting that the target refused is not asked for again: its brokers may be other ones by then.
	refusedFor = time.Hour
	// barredFor is how long a topic that may not be changed is left alone: nothing is stored and tried in vain each pass.
	barredFor = 5 * time.Minute
)

// refusal is a change that a target does not take. The zero topic stands for all topics: it does not know the key.
type refusal struct {
	topic, key string
	value      string
	remove     bool
}

// refusals remember what a target does not take, and which of its topics may not be changed; "" stands for all of them.
type refusals struct {
	mu     sync.Mutex // guards the fields below
	why    map[refusal]string
	since  time.Time // when the first was refused
	barred map[string]bar
}

// bar is why a topic may not be changed for the time being.
type bar struct {
	err   error
	until time.Time
}

func newRefusals() *refusals {
	return &refusals{why: make(map[refusal]string), barred: make(map[string]bar)}
}

// of says why the target does not take a change of a topic; value nil removes the key.
func (r *refusals) of(topic, key string, value *string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if why, ok := r.why[refusal{key: key}]; ok {
		return why
	}
	return r.why[refusalOf(topic, key, value)]
}

func refusalOf(topic, key string, value *string) refusal {
	if value == nil {
		return refusal{topic: topic, key: key, remove: true}
	}
	return refusal{topic: topic, key: key, value: *value}
}

func (r *refusals) add(x refusal, why string, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.why[x] = why
	if r.since.IsZero() {
		r.since = now
	}
}

// bars has a topic left alone for a while. One that is barred already is not barred for longer.
func (r *refusals) bars(topic string, err error, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, is := r.barred[topic]; !is {
		r.barred[topic] = bar{err: err, until: now.Add(barredFor)}
	}
}

// isBarred says why a topic may not be changed, nil when it may be tried.
func (r *refusals) isBarred(topic string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if b, is := r.barred[""]; is {
		return b.err
	}
	return r.barred[topic].err
}

// forgetOld forgets what was long ago.
func (r *refusals) forgetOld(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.since.IsZero() && now.Sub(r.since) > refusedFor {
		clear(r.why)
		r.since = time.Time{}
	}
	for topic, b := range r.barred {
		if now.After(b.until) {
			delete(r.barred, topic)
		}
	}
}

// forget forgets everything.
func (r *refusals) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.why)
	clear(r.barred)
	r.since = time.Time{}
}
