package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"lockstep/checkpoint"
	"lockstep/checkpoint/reset"
	"lockstep/internal/kafka"
	"lockstep/internal/model"
	"lockstep/internal/statelog"
)

// mover carries out one change of positions on one cluster: reset, import or undo.
type mover struct {
	link    string
	cluster *kafka.Cluster // whose groups
	dst     *kafka.Cluster // where the link keeps its state
	does    string         // the change, in words
	reason  string
	again   string // how the command line begins that undoes it
	// targets says what is wanted. groups are those that it is about, as they are now.
	targets func(ctx context.Context) (targets []reset.Target, groups checkpoint.Picture, err error)
	at      time.Time // of look-ups by time; zero: none
	undoes  *reset.Kept

	plan    reset.Plan
	records map[reset.Place]reset.Record
	counts  reset.Counts
	id      string // under which the old positions are kept
}

// move plans, asks and changes.
func (a *app) move(cmd *cobra.Command, c *consent, m *mover) error {
	m.reason = c.reason
	return a.carryOut(cmd, c, change{plan: m.look, do: m.do, view: m})
}

// look makes the plan.
func (m *mover) look(ctx context.Context) ([]model.OrderStep, error) {
	targets, groups, err := m.targets(ctx)
	if err != nil {
		return nil, err
	}
	m.plan = reset.Make(reset.Input{Cluster: m.cluster.Name(), Groups: groups, Logs: reset.Logs(ctx, m.cluster, partitionsOf(targets), m.at), Targets: targets})
	if len(m.plan.Missing) > 0 {
		return nil, refused(fmt.Errorf("nothing was done: %w", missingText(m.plan.Missing)))
	}
	if m.undoes != nil {
		m.undoes.Mention(&m.plan)
	}
	m.records = reset.Peek(ctx, m.cluster, m.places())
	return m.steps(), nil
}

func partitionsOf(targets []reset.Target) []checkpoint.Key {
	seen := make(map[checkpoint.Key]bool)
	var out []checkpoint.Key
	for _, t := range targets {
		if !seen[t.Key] {
			seen[t.Key] = true
			out = append(out, t.Key)
		}
	}
	return out
}

// missingText joins the first of many errors.
func missingText(errs []error) error {
	const most = 10
	if more := len(errs) - most; more > 0 {
		errs = append(errs[:most:most], fmt.Errorf("and %s more", plural(more, "line")))
	}
	return errors.Join(errs...)
}

// do keeps the old positions and writes the new ones.
func (m *mover) do(ctx context.Context) ([]model.OrderStep, error) {
	moves, counts, err := reset.Apply(ctx, reset.Cluster{C: m.cluster}, m.cluster.Name(), m.plan.Moves, func(todo []reset.Move) error {
		return m.keep(ctx, todo)
	})
	if err != nil {
		return nil, err
	}
	m.plan.Moves, m.counts = moves, counts
	return m.steps(), nil
}

// keep stores the old positions in the link's state topic, which is made when the link has not run yet.
func (m *mover) keep(ctx context.Context, todo []reset.Move) error {
	log := statelog.New(m.dst, m.link, statelog.Options{})
	defer log.Close()
	if err := log.Ensure(ctx); err != nil {
		return err
	}
	before, err := reset.ReadKept(ctx, log)
	if err != nil {
		return err
	}
	now := time.Now()
	k := reset.Kept{ID: reset.NewID(now), At: now, By: operator(), Reason: m.reason, Does: m.does, Cluster: m.cluster.Name(), Positions: reset.KeptOf(todo)}
	if err := reset.Keep(ctx, log, k, before); err != nil {
		return err
	}
	m.id = k.ID
	return nil
}

// steps are the moves in the form that every change has.
func (m *mover) steps() []model.OrderStep {
	out := make([]model.OrderStep, len(m.plan.Moves))
	for i, v := range m.plan.Moves {
		out[i] = model.OrderStep{Subject: v.Group + " " + v.Key.String(), State: "at " + position(v.Old), Does: "goes to " + position(v.New), CanUndo: true,
			Refused: v.Refused, Done: v.Done, Error: v.Error}
	}
	return out
}
