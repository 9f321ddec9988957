package main

import (
	"context"
	"fmt"
	"time"
)

const (
	lookEvery = 4 * time.Millisecond // at the target's ends: the resolution of wall times
	runLimit  = 5 * time.Minute      // for one run of a copier
)

// throughput runs every copier over a load, once to warm the brokers up and then round by round, in turns and each
// round in the opposite order, so that what changes over time meets all of them.
func (s *stage) throughput(ctx context.Context, l load) (*throughput, error) {
	t := &throughput{Records: int64(l.records), Copiers: map[string][]run{}}
	var err error
	if t.Bytes, t.Batches, err = measureTopic(ctx, s.src.Admin(), l.name); err != nil {
		return nil, err
	}
	n := 0
	for round := range s.rounds + 1 {
		for i := range s.running {
			c := s.running[i]
			if round%2 == 1 {
				c = s.running[len(s.running)-1-i]
			}
			n++
			r, err := s.copyOnce(ctx, c, l, n)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", c.name(), err)
			}
			say("%s, round %d: %-8s wall %.2f s, processor %.2f s, memory %.0f MB", l.name, round, c.name(), r.Wall, r.CPU, r.RSS/1e6)
			if round > 0 {
				t.Copiers[c.name()] = append(t.Copiers[c.name()], r)
			}
		}
	}
	t.ratios()
	return t, nil
}

// copyOnce runs a copier over a load and measures it.
func (s *stage) copyOnce(ctx context.Context, c copier, l load, n int) (run, error) {
	ctx, cancel := context.WithTimeout(ctx, runLimit)
	defer cancel()
	j, err := c.plan(ctx, l.name, partitions, n, false)
	if err != nil {
		return run{}, err
	}
	started := time.Now()
	p, err := j.start(ctx)
	if err != nil {
		return run{}, err
	}
	wall, err := s.watchCopy(ctx, p, j, int64(l.records))
	if err != nil {
		return run{}, err
	}
	p.look()
	u, err := p.wait()
	if err != nil {
		return run{}, err
	}
	r := run{Wall: wall.Seconds(), CPU: u.cpu.Seconds(), RSS: float64(u.rss), Process: time.Since(started).Seconds()}
	return r, s.sweep(ctx, j.litter...)
}

// watchCopy waits until all records stand on the target. The process may end right after its last record, so its end
// is no failure before the topic has been looked at once more.
func (s *stage) watchCopy(ctx context.Context, p *child, j *job, records int64) (time.Duration, error) {
	looks := 0
	w := watch{admin: s.dst.Admin(), topic: j.to, parts: partitions, every: lookEvery, tick: func() {
		if looks++; looks%10 == 0 {
			p.look()
		}
	}}
	watched, cancel := p.watched(ctx)
	defer cancel()
	wall, err := w.copied(watched, records)
	if err == nil {
		return wall, nil
	}
	if sum, lookErr := w.look(ctx); lookErr == nil && sum >= records {
		return wall, nil
	}
	return 0, err
}
