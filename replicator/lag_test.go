package replicator

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

func (p *lagPoints) behind(next int64, now time.Time) time.Duration {
	age, _ := p.age(next, now)
	return age
}

func TestLagPoints_OldestUnreadRecord(t *testing.T) {
	t.Parallel()
	var p lagPoints
	t0 := time.Unix(1000, 0)
	for i := range 500 {
		p.add(int64(10*(i+1)), t0.Add(time.Duration(i)*time.Second))
	}
	now := t0.Add(500 * time.Second)
	if d := p.behind(5000, now); d != 0 {
		t.Fatalf("behind %v at the end", d)
	}
	if d := p.behind(4990, now); d != time.Second {
		t.Fatalf("last point: behind %v", d)
	}
	p.add(7, now) // the source was truncated
	if d := p.behind(0, now.Add(3*time.Second)); d != 3*time.Second {
		t.Fatalf("after a truncation: behind %v", d)
	}
}

func TestLagPoints_WhatWasThereBeforeIsAtLeast(t *testing.T) {
	t.Parallel()
	var p lagPoints
	t0 := time.Unix(1000, 0)
	p.add(100, t0)
	p.add(150, t0.Add(time.Hour))
	now := t0.Add(2 * time.Hour)
	for _, c := range []struct {
		off     int64
		age     time.Duration
		atLeast bool
	}{{0, 2 * time.Hour, true}, {99, 2 * time.Hour, true}, {100, time.Hour, false}, {149, time.Hour, false}, {150, 0, false}, {1000, 0, false}} {
		if age, atLeast := p.age(c.off, now); age != c.age || atLeast != c.atLeast {
			t.Errorf("offset %d: %v, at least: %t; want %v, %t", c.off, age, atLeast, c.age, c.atLeast)
		}
	}
}

// sightings is the naive model: every sight of the readable end is kept.
type sightings []lagPoint

func (s sightings) age(off int64, now time.Duration) time.Duration {
	for _, pt := range s {
		if pt.end > off {
			return now - pt.to
		}
	}
	return 0
}

// lagBound is how far an age may be off, as a share of it.
const lagBound = 0.08

func share(got, want time.Duration) float64 {
	return (got - want).Abs().Seconds() / (want + lagYoung).Seconds()
}

// Whatever comes in whatever rhythm over two days: the age of any record is right within 8 %.
func TestLagPoints_AgesAreRightWithinEightPerCent(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var p lagPoints
		var all sightings
		t0 := time.Unix(1000, 0)
		end, at := int64(0), time.Duration(0)
		for range rapid.IntRange(1, 12).Draw(t, "stretches") {
			step := time.Duration(rapid.Int64Range(1, int64(10*time.Minute)).Draw(t, "step"))
			quiet := time.Duration(rapid.Int64Range(0, int64(8*time.Hour)).Draw(t, "quiet"))
			each := rapid.Int64Range(0, 1000).Draw(t, "each")
			for range rapid.IntRange(0, 400).Draw(t, "sights") {
				at, end = at+step, end+each
				p.add(end, t0.Add(at))
				if len(all) == 0 || end > all[len(all)-1].end {
					all = append(all, lagPoint{end: end, to: at})
				}
			}
			if len(p.points) > lagKeep {
				t.Fatalf("%d points", len(p.points))
			}
			at += quiet
		}
		before := time.Duration(0)
		for i := len(all) - 1; i >= 0; i-- {
			off := all[i].end - 1
			got, atLeast := p.age(off, t0.Add(at))
			want := all.age(off, at)
			if atLeast {
				if got > want {
					t.Fatalf("offset %d: at least %v, and is %v", off, got, want)
				}
				continue
			}
			if share(got, want) > lagBound {
				t.Fatalf("offset %d: %v, is %v", off, got, want)
			}
			if got < before {
				t.Fatalf("offset %d: %v, younger than a later one", off, got)
			}
			before = got
		}
	})
}

// A busy day is the most there is to remember: every fetch answer brings a new end.
func TestLagPoints_ABusyDay(t *testing.T) {
	t.Parallel()
	var p lagPoints
	t0 := time.Unix(1000, 0)
	const sights, each = 24 * 3600 * 5, 200 * time.Millisecond
	for i := range sights {
		p.add(int64(i+1), t0.Add(time.Duration(i)*each))
	}
	now := time.Duration(sights) * each
	for i := 1; i < sights; i += 7 {
		want := now - time.Duration(i)*each
		got, atLeast := p.age(int64(i), t0.Add(now))
		if e := share(got, want); e > lagBound || atLeast {
			t.Fatalf("offset %d: %v (at least: %t), is %v", i, got, atLeast, want)
		}
	}
}

func BenchmarkLagPoints_Add(b *testing.B) {
	var p lagPoints
	t0 := time.Unix(1000, 0)
	for i := range b.N {
		p.add(int64(i), t0.Add(time.Duration(i)*100*time.Millisecond))
	}
}
