package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"lockstep/config"
	"lockstep/internal/kafka"
	"lockstep/replicator/probe"
)

// probeTargets tries every target of the configuration, one after the other, and tells on stderr what it does.
func (a *app) probeTargets(ctx context.Context, cfg *config.Config) ([]probe.Report, error) {
	log := newLogger(a.stderr, config.Log{Level: "error"})
	var out []probe.Report
	var failed error
	for _, name := range targetsOf(cfg) {
		dst, err := kafka.Dial(cfg.Clusters[name], kafka.Options{Logger: log})
		if err != nil {
			return out, err
		}
		report, err := probe.Run(ctx, dst, probe.Options{Logger: log, Progress: func(what string) {
			fmt.Fprintf(a.stderr, "probe of %s: %s\n", name, what)
		}})
		dst.Close()
		out, failed = append(out, report), errors.Join(failed, err)
		if ctx.Err() != nil {
			break
		}
	}
	return out, failed
}

func targetsOf(cfg *config.Config) []string {
	names := make(map[string]bool)
	for _, l := range cfg.Links {
		names[l.Target] = true
	}
	return sortedKeys(names)
}

// printProbes shows facts and promises for people.
func (a *app) printProbes(reports []probe.Report) error {
	for _, r := range reports {
		fmt.Fprintf(a.stdout, "\nprobe of %s, on scratch topic %s\n", r.Cluster, r.Topic)
		for _, topic := range r.Leftovers {
			fmt.Fprintf(a.stdout, "left over from an older probe: %s\n", topic)
		}
		if len(r.Facts) == 0 {
			continue
		}
		for _, t := range []*table{factTable(r), promiseTable(r)} {
			fmt.Fprintln(a.stdout)
			if err := t.write(a.stdout); err != nil {
				return err
			}
		}
		for _, f := range r.Facts {
			if f.Result == probe.Failed || f.Result == probe.Warning {
				fmt.Fprintf(a.stdout, "\n%s: %s\n  %s\n%s", f.Result, f.Name, f.Detail, neededText(f))
			}
		}
	}
	return nil
}

func neededText(f probe.Fact) string {
	if f.For == "" {
		return ""
	}
	return "  needed for: " + f.For + "\n"
}

// detailWidth lets the table fit 100 columns. What is wrong is told below it, in whole lines: it may hold a command.
const detailWidth = 45

func factTable(r probe.Report) *table {
	t := &table{head: []string{"FACT", "RESULT", "DETAIL"}}
	for _, f := range r.Facts {
		detail := f.Detail
		if f.Result != probe.OK {
			detail = "see below"
			if f.Result == probe.NotTried {
				detail = f.Detail
			}
		}
		t.addLines([]string{f.Name}, []string{f.Result}, wrap(detail, detailWidth))
	}
	return t
}

func promiseTable(r probe.Report) *table {
	t := &table{head: []string{"PROMISE", "HOLDS", "HOW"}}
	for _, p := range r.Promises {
		t.addLines([]string{p.Name}, []string{p.Holds}, wrap(p.How, detailWidth+3))
	}
	return t
}

// brokenPromises gives promises that do not hold their exit code.
func brokenPromises(reports []probe.Report) error {
	var broken []string
	for _, r := range reports {
		for _, p := range r.Broken() {
			broken = append(broken, fmt.Sprintf("%s on %s (%s)", p.Name, r.Cluster, p.How))
		}
	}
	if len(broken) == 0 {
		return nil
	}
	return refused(fmt.Errorf("%s not shown to hold: %s", plural(len(broken), "promise"), strings.Join(broken, "; ")))
}
