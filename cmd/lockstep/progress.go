package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"lockstep/internal/model"
)

// progress shows one line that is rewritten while lanes catch up. Without a terminal it is silent: the log tells
// changes of state.
type progress struct {
	w    io.Writer
	live bool
}

func newProgress(w io.Writer) *progress {
	return &progress{w: w, live: isTerminal(w)}
}

// logWriter is where the log goes: beside a progress line each log line first wipes that one out.
func (p *progress) logWriter() io.Writer {
	if !p.live {
		return p.w
	}
	return wiper{p.w}
}

const wipe = "\r\033[K"

type wiper struct{ w io.Writer }

func (w wiper) Write(line []byte) (int, error) {
	if _, err := io.WriteString(w.w, wipe); err != nil {
		return 0, err
	}
	return w.w.Write(line)
}

const progressEvery = 500 * time.Millisecond

// start shows progress until ctx ends; the returned channel is closed when the line is gone.
func (p *progress) start(ctx context.Context, n *node) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		if !p.live {
			return
		}
		tick := time.NewTicker(progressEvery)
		defer tick.Stop()
		var meter meter
		for {
			select {
			case <-tick.C:
				p.show(meter.line(n.totals(), time.Now()))
			case <-ctx.Done():
				p.show("")
				return
			}
		}
	}()
	return done
}

// show rewrites the line. A terminal that is gone misses nothing.
func (p *progress) show(line string) { _, _ = io.WriteString(p.w, wipe+line) }

// totals are the figures of all lanes together.
type totals struct {
	lanes, stopped         int
	records, bytes, behind int64
}

func (n *node) totals() (t totals) {
	for _, l := range n.links.status() {
		for _, s := range l.Lanes {
			t.lanes++
			if s.State == model.StateStopped {
				t.stopped++
				continue
			}
			t.records += s.Records
			t.bytes += s.Bytes
			t.behind += s.LagRecords()
		}
	}
	return t
}

// meter turns totals into rates.
type meter struct {
	last    totals
	at      time.Time
	records float64 // a second, smoothed
	bytes   float64
}

// line returns what is to be shown; empty once everything has caught up.
func (m *meter) line(t totals, now time.Time) string {
	if d := now.Sub(m.at).Seconds(); !m.at.IsZero() && d > 0 {
		const weight = 0.3
		m.records += weight * (float64(t.records-m.last.records)/d - m.records)
		m.bytes += weight * (float64(t.bytes-m.last.bytes)/d - m.bytes)
	}
	m.last, m.at = t, now
	if t.behind < int64(m.records) || t.behind == 0 {
		return ""
	}
	left := "?"
	if m.records >= 1 {
		left = (time.Duration(float64(t.behind)/m.records) * time.Second).Round(time.Second).String()
	}
	done := 100 * float64(t.records) / float64(t.records+t.behind)
	return fmt.Sprintf("%d lanes  %s copied (%.0f %%)  %s/s  %s/s  %s left", t.lanes, grouped(t.records), done,
		humanBytes(m.bytes), grouped(int64(m.records)), left)
}
