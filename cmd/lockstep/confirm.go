package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"lockstep/api"
	"lockstep/internal/model"
)

// change is something that a command is about to change. plan looks and changes nothing; do does it and returns the same
// steps with how each ended. An error of do means that nothing was done at all.
type change struct {
	plan func(ctx context.Context) ([]model.OrderStep, error)
	do   func(ctx context.Context) ([]model.OrderStep, error)
	view view // nil: the plan is the table of its steps
}

// view shows a change in words of its own, for people before it is done and after, and as JSON.
type view interface {
	showPlan(w io.Writer) error
	showResult(w io.Writer) error
	answer() any
}

// consent is what the command line says about going ahead: the flags that every command has which changes something.
type consent struct {
	yes, dryRun bool
	reason      string
	timeout     time.Duration
}

func (c *consent) addFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.BoolVar(&c.yes, "yes", false, "go ahead without asking")
	f.BoolVar(&c.dryRun, "dry-run", false, "print the plan and change nothing")
	f.StringVar(&c.reason, "reason", "", "why; it is kept with what is written about it")
	f.DurationVar(&c.timeout, "timeout", time.Minute, "how long to wait until it is done")
}

// isTerminal reports whether a person sits at f.
func isTerminal(f any) bool {
	file, ok := f.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// carryOut is the one way in which commands change something: the plan is printed and asked about, then done. Without a
// terminal nothing is done unless --yes says so.
func (a *app) carryOut(cmd *cobra.Command, c *consent, ch change) error {
	if err := a.checkConsent(c); err != nil {
		return err
	}
	ctx := cmd.Context()
	steps, err := ch.plan(ctx)
	if err != nil {
		return err
	}
	possible := possible(steps)
	if c.dryRun || possible == 0 {
		if err := a.printPlan(ch, steps); err != nil || possible > 0 || len(steps) == 0 {
			return err
		}
		return refused(fmt.Errorf("%s: nothing was done", refusedText(steps)))
	}
	if err := showPlan(a.stderr, ch, steps); err != nil {
		return err
	}
	if !c.yes {
		if err := a.confirm(ctx); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	if steps, err = ch.do(ctx); err != nil {
		return interrupted(ctx, err)
	}
	if err := a.printResult(ch, steps); err != nil {
		return err
	}
	return verdict(steps, errors.Is(ctx.Err(), context.DeadlineExceeded))
}

func (a *app) checkConsent(c *consent) error {
	if err := a.checkOutput("table", "json"); err != nil {
		return err
	}
	if c.timeout < time.Second {
		return usage(fmt.Errorf("--timeout %v: want a second or more", c.timeout))
	}
	if !c.yes && !c.dryRun && !a.interactive {
		return usage(errors.New("standard input is no terminal, so nobody can be asked: --yes goes ahead, --dry-run shows the plan"))
	}
	return nil
}

// printPlan prints a plan that is not going to be carried out.
func (a *app) printPlan(ch change, steps []model.OrderStep) error {
	if a.output == "json" {
		return a.print(ch.answer(steps), nil)
	}
	if len(steps) == 0 && ch.view == nil {
		fmt.Fprintln(a.stdout, "nothing to do")
		return nil
	}
	return showPlan(a.stdout, ch, steps)
}

func showPlan(w io.Writer, ch change, steps []model.OrderStep) error {
	if ch.view != nil {
		return ch.view.showPlan(w)
	}
	if err := planTable(steps).write(w); err != nil {
		return err
	}
	fmt.Fprintln(w, planSummary(steps))
	return nil
}

// printResult prints how a change ended.
func (a *app) printResult(ch change, steps []model.OrderStep) error {
	if ch.view != nil && a.output != "json" {
		return ch.view.showResult(a.stdout)
	}
	return a.print(ch.answer(steps), resultTable(steps))
}

func (ch change) answer(steps []model.OrderStep) any {
	if ch.view != nil {
		return ch.view.answer()
	}
	return api.OrderAnswer{Schema: api.Schema, Steps: append([]model.OrderStep{}, steps...)}
}

// confirm asks, and returns nil only for a yes. Whatever else happens, nothing has been done.
func (a *app) confirm(ctx context.Context) error {
	fmt.Fprintf(a.stderr, "Go ahead? [y/N] ")
	answer := make(chan string, 1)
	go func() { // stays behind when ctx ends first: a read of a terminal cannot be ended, the process ends instead
		line, err := bufio.NewReader(a.stdin).ReadString('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			line = ""
		}
		answer <- line
	}()
	select {
	case line := <-answer:
		switch strings.ToLower(strings.TrimSpace(line)) {
		case "y", "yes":
			return nil
		}
		if !strings.HasSuffix(line, "\n") { // the end of the input, not of a line
			fmt.Fprintln(a.stderr)
		}
		return errors.New("not confirmed: nothing was done")
	case <-ctx.Done():
		fmt.Fprintln(a.stderr)
		return errors.New("interrupted: nothing was done")
	}
}

// interrupted adds to an error of doing that it may have come too late to hold anything up.
func interrupted(ctx context.Context, err error) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return fmt.Errorf("interrupted; what was ordered may be under way, lockstep status shows it: %w", err)
	}
	return err
}

// possible counts the steps that are not refused.
func possible(steps []model.OrderStep) (n int) {
	for _, s := range steps {
		if s.Refused == "" {
			n++
		}
	}
	return n
}

func refusedText(steps []model.OrderStep) string {
	if len(steps) == 1 {
		return steps[0].Subject + " is refused"
	}
	return fmt.Sprintf("all %d steps are refused", len(steps))
}

// verdict gives the steps' ends their exit code; late says that the time was over.
func verdict(steps []model.OrderStep, late bool) error {
	var done, refusals, failed, pending int
	for _, s := range steps {
		switch outcome(s) {
		case outcomeDone:
			done++
		case outcomeRefused:
			refusals++
		case outcomeFailed:
			failed++
		case outcomePending:
			pending++
		}
	}
	switch {
	case done == len(steps):
		return nil
	case done > 0 && refusals+failed > 0:
		return &exitError{exitPartly, fmt.Errorf("%d of %d steps are done", done, len(steps))}
	case pending > 0 || failed > 0 && late:
		return &exitError{exitTimeout, fmt.Errorf("%d of %d steps were not done in time; look at lockstep status, and order them again", pending+failed, len(steps))}
	case failed > 0:
		return fmt.Errorf("nothing is done: %d of %d steps failed", failed, len(steps))
	}
	return refused(fmt.Errorf("%s: nothing was done", refusedText(steps)))
}
