package replicator

import (
	"context"
	"fmt"
	"time"

	"lockstep/internal/kafka"
	"lockstep/internal/model"
)

const (
	// quietEvery is how often lanes are looked at that no fetch answer has mentioned for quietAfter. That is normal while
	// nothing is written; a lane that is behind for behindFor all the same is stuck.
	quietEvery = 15 * time.Second
	quietAfter = 45 * time.Second
	behindFor  = 15 * time.Second
	// fetchPatience is how long a fetch may take before its client is given up.
	fetchPatience = time.Minute
)

// watchQuiet finds lanes that look healthy, are behind and get nothing: a broker or a client has lost them. Their fetcher
// gets a new client and a new session.
func (m *Manager) watchQuiet(ctx context.Context) {
	quiet := make(map[kafka.Part]*lane)
	var parts []kafka.Part
	for _, l := range m.all() {
		if l.quiet(m.now()) {
			quiet[l.srcPart()] = l
			parts = append(parts, l.srcPart())
		}
	}
	if len(parts) == 0 {
		return
	}
	ask, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	for p, end := range m.src.ListOffsets(ask, parts, kafka.AtEnd, !m.opt.ReadUncommitted) {
		if end.Err != nil {
			continue
		}
		if f := quiet[p].stuck(end.Offset, m.now()); f != nil {
			f.stale.Store(true)
			f.signal()
		}
	}
}

// quiet reports whether no answer has mentioned the lane for long although it asks, and no fault tells why.
func (l *lane) quiet(now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	asks := l.asksLocked(now)
	if !asks {
		l.behind = time.Time{}
	}
	return asks && (l.fault.IsZero() || l.lost) && !l.hanging && now.Sub(l.heard) >= quietAfter
}

// stuck takes the source's end from elsewhere. It returns the lane's fetcher when the lane has been behind it for too long.
func (l *lane) stuck(end int64, now time.Time) *fetcher {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.fetchNext >= end || now.Sub(l.heard) < quietAfter:
		l.behind = time.Time{}
		return nil
	case l.behind.Before(l.heard):
		l.behind = now
		return nil
	case now.Sub(l.behind) < behindFor || l.fetch == nil:
		return nil
	}
	detail := fmt.Sprintf("the source has offsets up to %d and sends nothing from %d on, for %s: its client is made anew",
		end, l.fetchNext, now.Sub(l.heard).Truncate(time.Second))
	l.atSource, l.lost, l.behind = true, true, time.Time{}
	if l.fault.IsZero() {
		l.fault = l.heard
	}
	l.why = refusal{reason: model.ReasonInternal, detail: detail}
	l.overdueLocked(now)
	return l.fetch
}

// renew replaces a fetcher's client and session.
func (f *fetcher) renew(why string) {
	f.m.metrics.rebuilt.WithLabelValues(f.m.opt.Link).Inc()
	client, err := f.m.opt.Source.NewFetch()
	if err != nil {
		f.m.log.Error("make a fetch client anew", "broker", f.broker, "error", err)
		return
	}
	f.m.log.Warn("a fetch client brought nothing any more and is made anew", "broker", f.broker, "why", why)
	f.client.Close()
	f.client, f.session = client, kafka.NewSession()
}
