// Command bench measures lockstep against the least that any copier must do: fetch batches, patch their headers,
// produce them. Both do the same work in turns, on the same two real brokers, each as a process of its own.
//
// It starts the brokers, fills the source, runs the copiers several times in alternating order, and measures each
// run's wall time (from the first record on the target to the last), processor time and peak memory; then the delay
// of single records on a machine that is otherwise idle. The figures go to $BENCH_OUT (bench/out.json), a table to
// standard output. The bare loop in floor.go shares no code with the product but the patching of a header.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := command(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		stop()
		os.Exit(1)
	}
}

// command is the benchmark, or with "floor" as its first argument one copier process of it.
func command(ctx context.Context, args []string) error {
	if len(args) > 0 && args[0] == "floor" {
		return runFloor(ctx, args[1:])
	}
	var o options
	fs := flag.NewFlagSet("bench", flag.ContinueOnError)
	fs.IntVar(&o.rounds, "rounds", 5, "measured runs of each copier and load")
	fs.Float64Var(&o.scale, "scale", 1, "size of the loads")
	fs.DurationVar(&o.latencyFor, "latency-for", defaultLatencyFor, "how long delays are measured, for each copier")
	fs.StringVar(&o.only, "only", "", "large, small or latency alone")
	fs.StringVar(&o.copiers, "copiers", "floor,lockstep", "which copiers run")
	fs.StringVar(&o.binary, "lockstep", "", "a lockstep binary to measure; built from this tree when left out")
	if err := fs.Parse(args); err != nil {
		return err
	}
	if o.rounds < 1 || o.scale <= 0 {
		return errors.New("-rounds and -scale must be positive")
	}
	return bench(ctx, o)
}

// bench runs everything between starting the brokers and writing the result.
func bench(ctx context.Context, o options) (err error) {
	h, err := newHost(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.close()) }()
	s, err := newStage(ctx, h, o)
	if err != nil {
		return err
	}
	res, err := s.measure(ctx)
	if err != nil {
		return err
	}
	out := os.Getenv("BENCH_OUT")
	if out == "" {
		out = filepath.Join("bench", "out.json")
	}
	if err := res.write(out); err != nil {
		return err
	}
	return res.table(os.Stdout)
}
