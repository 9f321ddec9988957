package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"text/tabwriter"
	"time"
)

// result is what $BENCH_OUT holds.
type result struct {
	Schema  int         `json:"schema"`
	At      time.Time   `json:"at"`
	Kafka   string      `json:"kafka"`
	Go      string      `json:"go"`
	CPUs    int         `json:"cpus"`
	Large   *throughput `json:"large,omitempty"`
	Small   *throughput `json:"small,omitempty"`
	Latency *latency    `json:"latency,omitempty"`
}

// throughput is one load: its size on the source's disk, every run of every copier, and the ratios of their medians.
type throughput struct {
	Records   int64            `json:"records"`
	Bytes     int64            `json:"bytes"`
	Batches   int64            `json:"batches"`
	Copiers   map[string][]run `json:"copiers"`
	FloorWall float64          `json:"floor_wall"` // the bare loop divided by lockstep: 1 is as good as can be
	FloorCPU  float64          `json:"floor_cpu"`
}

// run is one run of a copier.
type run struct {
	Wall    float64 `json:"wall_seconds"` // from the first record on the target to the last
	CPU     float64 `json:"cpu_seconds"`  // user and system time of the whole process
	RSS     float64 `json:"rss_bytes"`    // peak
	Process float64 `json:"process_seconds"`
}

// latency is the delay of single records.
type latency struct {
	PerSecond int               `json:"records_per_second"`
	Copiers   map[string]delays `json:"copiers"`
}

// delays are quantiles in milliseconds, from sending a record to having it consumed.
type delays struct {
	Samples int     `json:"samples"`
	P50     float64 `json:"p50_ms"`
	P90     float64 `json:"p90_ms"`
	P99     float64 `json:"p99_ms"`
	Max     float64 `json:"max_ms"`
	CPU     float64 `json:"cpu_seconds"` // of the copier, the whole time
}

func (t *throughput) ratios() {
	t.FloorWall = ratio(t.median("floor", run.wall), t.median("lockstep", run.wall))
	t.FloorCPU = ratio(t.median("floor", run.cpu), t.median("lockstep", run.cpu))
}

func (r run) wall() float64 { return r.Wall }
func (r run) cpu() float64  { return r.CPU }
func (r run) rss() float64  { return r.RSS }

func (t *throughput) median(copier string, of func(run) float64) float64 {
	var vs []float64
	for _, r := range t.Copiers[copier] {
		vs = append(vs, of(r))
	}
	return median(vs)
}

// median of no figures is 0.
func median(vs []float64) float64 {
	if len(vs) == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(vs))
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}

// ratio is 0 where there is nothing to divide by.
func ratio(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}

func (r *result) write(file string) error {
	b, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("encode result: %w", err)
	}
	if err := os.WriteFile(file, append(b, '\n'), 0o600); err != nil {
		return fmt.Errorf("write result: %w", err)
	}
	say("figures of every run: %s", file)
	return nil
}

// table prints the medians, at most 80 columns wide.
func (r *result) table(w io.Writer) error {
	blocks := []func(io.Writer){}
	if r.Large != nil {
		blocks = append(blocks, func(w io.Writer) { r.Large.rows(w, "large") })
	}
	if r.Small != nil {
		blocks = append(blocks, func(w io.Writer) { r.Small.rows(w, "small") })
	}
	if r.Latency != nil {
		blocks = append(blocks, r.Latency.rows)
	}
	for i, rows := range blocks {
		if i > 0 {
			fmt.Fprintln(w)
		}
		tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
		rows(tw)
		if err := tw.Flush(); err != nil {
			return fmt.Errorf("print table: %w", err)
		}
	}
	return nil
}

func (t *throughput) rows(w io.Writer, name string) {
	fmt.Fprintf(w, "%s\tMB\tbatches\twall s\tMB/s\tcpu s\tpeak MB\t\n", name)
	for _, c := range slices.Sorted(maps.Keys(t.Copiers)) {
		wall, mb := t.median(c, run.wall), float64(t.Bytes)/1e6
		fmt.Fprintf(w, "%s\t%.0f\t%d\t%.2f\t%.0f\t%.2f\t%.0f\t\n", c, mb, t.Batches, wall, ratio(mb, wall), t.median(c, run.cpu), t.median(c, run.rss)/1e6)
	}
	if t.FloorWall > 0 {
		fmt.Fprintf(w, "floor/lockstep\t\t\t%.2f\t\t%.2f\t\t\n", t.FloorWall, t.FloorCPU)
	}
}

func (l *latency) rows(w io.Writer) {
	fmt.Fprintf(w, "delay at %d/s\tsamples\tp50 ms\tp90 ms\tp99 ms\tmax ms\tcpu s\t\n", l.PerSecond)
	for _, c := range slices.Sorted(maps.Keys(l.Copiers)) {
		d := l.Copiers[c]
		fmt.Fprintf(w, "%s\t%d\t%.2f\t%.2f\t%.2f\t%.2f\t%.2f\t\n", c, d.Samples, d.P50, d.P90, d.P99, d.Max, d.CPU)
	}
}
