package main

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"
)

func runs(walls ...float64) []run {
	var out []run
	for _, w := range walls {
		out = append(out, run{Wall: w, CPU: w / 2, RSS: w * 1e8})
	}
	return out
}

func TestThroughput_RatiosAreOfMedians(t *testing.T) {
	t.Parallel()
	x := &throughput{Copiers: map[string][]run{"floor": runs(1, 9, 2), "lockstep": runs(4, 4, 100)}}
	x.ratios()
	if x.FloorWall != 0.5 || x.FloorCPU != 0.5 {
		t.Errorf("floor_wall %v, floor_cpu %v; want 0.5", x.FloorWall, x.FloorCPU)
	}
}

func TestMedian(t *testing.T) {
	t.Parallel()
	if a, b, c := median(nil), median([]float64{3, 1, 2}), median([]float64{4, 1}); a != 0 || b != 2 || c != 2.5 {
		t.Errorf("medians %v %v %v", a, b, c)
	}
}

func TestResult_TableFitsATerminal(t *testing.T) {
	t.Parallel()
	wide := &throughput{Records: 1 << 40, Bytes: 123_456_000_000, Batches: 12_345_678, Copiers: map[string][]run{"floor": runs(1234.5), "lockstep": runs(1234.5), "mirrormaker2": runs(1234.5)}}
	d := delays{Samples: 100_000, P50: 1234.56, P90: 1234.56, P99: 12345.67, Max: 123456.78, CPU: 1234.56}
	r := &result{Large: wide, Small: wide, Latency: &latency{PerSecond: 100, Copiers: map[string]delays{"floor": d, "lockstep": d, "mirrormaker2": d}}}
	var out bytes.Buffer
	if err := r.table(&out); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(out.String()) {
		if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > 80 {
			t.Errorf("%d columns: %q", n, line)
		}
	}
}

func TestDelays_Quantiles(t *testing.T) {
	t.Parallel()
	var ms []float64
	for i := range 1000 {
		ms = append(ms, float64(999-i))
	}
	if d := newDelays(ms); d.P50 != 500 || d.P99 != 990 || d.Max != 999 || d.Samples != 1000 {
		t.Errorf("%+v", d)
	}
}

func TestDocument_SizeIsThatOfTheLoad(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	for i := range 100 {
		if n := len(document(r, i)); n < 980 || n > 1060 {
			t.Fatalf("document of %d bytes", n)
		}
	}
}

func TestHost_FatalBecomesAnError(t *testing.T) {
	t.Parallel()
	h, err := newHost(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var order []string
	h.Cleanup(func() { order = append(order, "first") })
	h.Cleanup(func() { order = append(order, "second") })
	boom := errors.New("boom")
	if err := h.catch(func() { h.Fatalf("start: %w", boom) }); !errors.Is(err, boom) || !h.Failed() {
		t.Errorf("got %v", err)
	}
	if err := h.close(); err != nil || len(order) != 2 || order[0] != "second" {
		t.Errorf("close: %v, cleanups in order %v", err, order)
	}
}
