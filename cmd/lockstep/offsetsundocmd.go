package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"lockstep/api"
	"lockstep/checkpoint"
	"lockstep/checkpoint/reset"
	"lockstep/internal/kafka"
	"lockstep/internal/statelog"
	"lockstep/internal/when"
)

func (a *app) offsetsUndoCommand() *cobra.Command {
	var link string
	var list bool
	var c consent
	cmd := &cobra.Command{
		Use:   "undo --link L (ID | --list)",
		Short: "Bring back the positions that a reset, an import or an undo overwrote",
		Long: "Bring back the positions that a reset, an import or an undo overwrote. The newest 20 changes of a link are kept in its state topic on the " +
			"target; --list shows them. Positions that did not exist before are deleted. An undo is such a change too, and can be undone.",
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case link == "":
				return usage(errors.New("name the link with --link"))
			case list == (len(args) == 1):
				return usage(errors.New("name the change by its ID, or give --list to see them"))
			}
			s, err := a.sides(cmd, link)
			if err != nil {
				return err
			}
			defer s.close()
			if list {
				return a.listKept(cmd.Context(), s)
			}
			return a.undo(cmd, &c, s, args[0])
		},
	}
	cmd.Flags().StringVar(&link, "link", "", "the link")
	cmd.Flags().BoolVar(&list, "list", false, "list the changes that can be undone")
	c.addFlags(cmd)
	return cmd
}

// kept reads what is kept for the link, oldest first.
func (s *sides) kept(ctx context.Context) ([]reset.Kept, error) {
	dst, err := s.cluster(sideTarget)
	if err != nil {
		return nil, err
	}
	return keptOn(ctx, dst, s.link.Name)
}

func keptOn(ctx context.Context, dst *kafka.Cluster, link string) ([]reset.Kept, error) {
	log := statelog.New(dst, link, statelog.Options{})
	defer log.Close()
	exists, err := log.Exists(ctx)
	if err != nil || !exists {
		return nil, err
	}
	return reset.ReadKept(ctx, log)
}

func (a *app) undo(cmd *cobra.Command, c *consent, s *sides, id string) error {
	if err := a.checkConsent(c); err != nil {
		return err
	}
	all, err := s.kept(cmd.Context())
	if err != nil {
		return err
	}
	i := slices.IndexFunc(all, func(k reset.Kept) bool { return k.ID == id })
	if i < 0 {
		return usage(fmt.Errorf("link %s has no change %q: offsets undo --link %s --list shows them", s.link.Name, id, s.link.Name))
	}
	k := all[i]
	switch {
	case !k.Whole:
		return refused(fmt.Errorf("change %s was not made: the process died before its old positions were kept", id))
	case k.Cluster != s.link.Source && k.Cluster != s.link.Target:
		return refused(fmt.Errorf("change %s was made on cluster %q, which link %s has not any more", id, k.Cluster, s.link.Name))
	}
	side := sideTarget
	if k.Cluster == s.link.Source {
		side = sideSource
	}
	m, err := a.newMover(s, side)
	if err != nil {
		return err
	}
	m.does, m.undoes = fmt.Sprintf("undo %s (%s)", k.ID, k.Does), &k
	m.targets = func(ctx context.Context) ([]reset.Target, checkpoint.Picture, error) {
		targets := k.Targets()
		names := make(map[string]bool)
		for _, t := range targets {
			names[t.Group] = true
		}
		return targets, reset.Cluster{C: m.cluster}.Reread(ctx, sortedKeys(names)), nil
	}
	return a.move(cmd, c, m)
}

// keptAnswer lists changes as JSON, newest first.
type keptAnswer struct {
	Schema  int        `json:"schema"`
	Changes []keptJSON `json:"changes"`
}

type keptJSON struct {
	ID        string    `json:"id"`
	At        time.Time `json:"at"`
	By        string    `json:"by"`
	Reason    string    `json:"reason,omitempty"`
	Does      string    `json:"does"`
	Cluster   string    `json:"cluster"`
	Groups    int       `json:"groups"`
	Positions int       `json:"positions"`
}

func (a *app) listKept(ctx context.Context, s *sides) error {
	if err := a.checkOutput("table", "json", "csv"); err != nil {
		return err
	}
	all, err := s.kept(ctx)
	if err != nil {
		return err
	}
	slices.Reverse(all)
	out := keptAnswer{Schema: api.Schema, Changes: []keptJSON{}}
	t := &table{head: []string{"ID", "AT", "CLUSTER", "GROUPS", "POSITIONS", "CHANGE"}}
	cut := a.column(40)
	for _, k := range all {
		if !k.Whole {
			continue
		}
		groups := make(map[string]bool)
		for _, p := range k.Positions {
			groups[p.Group] = true
		}
		out.Changes = append(out.Changes, keptJSON{k.ID, k.At, k.By, k.Reason, k.Does, k.Cluster, len(groups), len(k.Positions)})
		does := k.Does
		if k.Reason != "" {
			does += ": " + k.Reason
		}
		t.addLines([]string{k.ID}, []string{when.Text(k.At.Truncate(time.Second))}, []string{k.Cluster}, []string{strconv.Itoa(len(groups))},
			[]string{strconv.Itoa(len(k.Positions))}, cut(does))
	}
	return a.print(out, t)
}
