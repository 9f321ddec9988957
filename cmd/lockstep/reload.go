package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"lockstep/api"
	"lockstep/config"
)

// reloader watches the configuration file and puts in force what changed in it.
type reloader struct {
	set   *settings
	look  func() sight
	apply func(context.Context, *config.Config, []config.Change) error
	log   *slog.Logger
	now   func() time.Time

	success prometheus.Gauge
	failed  prometheus.Counter

	// The fields below belong to run.
	inForce *config.Config
	last    string // hash of the content that was seen last
	tried   string // hash of the content that was loaded last, with or without success

	mu     sync.Mutex // guards status
	status api.ConfigStatus
}

func newReloader(set *settings, apply func(context.Context, *config.Config, []config.Change) error, reg prometheus.Registerer, log *slog.Logger) *reloader {
	r := &reloader{
		set: set, look: set.look, apply: apply, log: log, now: time.Now, inForce: set.first, last: set.sight.hash, tried: set.sight.hash,
		success: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "lockstep_config_reload_success_timestamp_seconds", Help: "When the configuration in force was loaded.",
		}),
		failed: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "lockstep_config_reload_failures_total", Help: "Changed configurations that had faults and were not taken over.",
		}),
	}
	reg.MustRegister(r.success, r.failed)
	r.loaded(set.sight, nil)
	return r
}

// pollEvery is how often the file is looked at.
const pollEvery = 2 * time.Second

// run watches until ctx ends: the file by itself, and when it is asked to.
func (r *reloader) run(ctx context.Context, asked <-chan os.Signal) {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	r.watch(ctx, tick.C, asked)
}

func (r *reloader) watch(ctx context.Context, ticks <-chan time.Time, asked <-chan os.Signal) {
	for {
		select {
		case <-ticks:
			r.poll(ctx)
		case <-asked:
			r.log.Info("asked to read the configuration again")
			seen := r.look()
			r.last = seen.hash
			r.take(ctx, seen, true)
		case <-ctx.Done():
			return
		}
	}
}

// poll looks at the file. New content is taken over when it is seen for the second time: at the first it may be half
// written, and half a configuration can be one without faults. After a failure the same content is tried again, since
// what it lacked may be a file that it names.
func (r *reloader) poll(ctx context.Context) {
	if info, err := os.Stat(r.set.source.File); r.set.source.File == "" || err == nil && !info.Mode().IsRegular() {
		return
	}
	seen := r.look()
	fresh := seen.hash != r.last
	r.last = seen.hash
	if fresh || seen.hash == r.tried && r.Status().Failed == nil {
		return
	}
	r.take(ctx, seen, false)
}

// take loads the configuration and puts in force what can be without a restart.
func (r *reloader) take(ctx context.Context, seen sight, asked bool) {
	r.tried = seen.hash
	loaded, err := r.set.load(seen)
	if err != nil {
		r.refuse(seen, err, asked)
		return
	}
	next := config.InForce(r.inForce, loaded)
	what, waits := config.Diff(r.inForce, next), config.Diff(next, loaded)
	switch mended := r.Status().Failed != nil; {
	case len(what)+len(waits) > 0:
		r.log.Info("configuration changed", "changes", len(what)+len(waits), "keys", keysOf(slices.Concat(what, waits)))
	case mended:
		r.log.Info("the configuration has no faults any more, and is the one in force")
	case asked:
		r.log.Info("configuration is unchanged")
	}
	if err := r.apply(ctx, next, what); err != nil {
		return // the process ends
	}
	r.inForce = next
	for _, c := range what {
		r.log.Info("setting changed", "key", c.Key, "old", c.Old, "new", c.New, "taken_over", c.Reload.Words())
	}
	for _, c := range waits {
		r.log.Warn("setting changes at the next start; the old value stays in force until then", "key", c.Key, "old", c.Old, "new", c.New)
	}
	r.loaded(seen, waits)
}

func keysOf(cs []config.Change) []string {
	keys := make([]string, len(cs))
	for i, c := range cs {
		keys[i] = c.Key
	}
	return keys
}

// loaded notes success.
func (r *reloader) loaded(seen sight, waits []config.Change) {
	r.success.Set(float64(r.now().Unix()))
	s := api.ConfigStatus{File: r.set.source.File, Hash: seen.hash, LoadedAt: r.now().UTC()}
	for _, c := range waits {
		s.Pending = append(s.Pending, api.ConfigChange{Key: c.Key, Old: c.Old, New: c.New})
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.status = s
}

// refuse notes faults, once for each time that somebody did something about them.
func (r *reloader) refuse(seen sight, err error, asked bool) {
	f := &api.ConfigFailure{At: r.now().UTC(), Hash: seen.hash, Faults: faultsOf(err)}
	r.mu.Lock()
	was := r.status.Failed
	known := !asked && was != nil && slices.Equal(was.Faults, f.Faults)
	if !known {
		r.failed.Inc() // before anybody can read of it
		r.status.Failed = f
	}
	r.mu.Unlock()
	if known {
		return
	}
	for _, fault := range f.Faults {
		r.log.Error("fault in the configuration", "fault", fault)
	}
	r.log.Error("the changed configuration is not taken over; the old one stays in force", "faults", len(f.Faults))
}

func faultsOf(err error) []string {
	var bad *config.Errors
	if !errors.As(err, &bad) {
		return []string{err.Error()}
	}
	out := make([]string, len(bad.Faults))
	for i, f := range bad.Faults {
		out[i] = f.String()
	}
	return out
}

// Status tells which configuration is in force, and what is in the way of a newer one.
func (r *reloader) Status() api.ConfigStatus {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.status
}
