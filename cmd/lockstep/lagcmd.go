package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"lockstep/api"
)

// lagWanted is what the lag command was asked for.
type lagWanted struct {
	link       string
	groups     bool
	group      string
	top        int
	warn, crit *string // nil: not given
}

func (w lagWanted) checks() bool { return w.warn != nil || w.crit != nil }

func (w lagWanted) lanes() bool { return !w.groups && w.group == "" }

func (a *app) lagCommand() *cobra.Command {
	var w lagWanted
	c := &cobra.Command{
		Use:   "lag",
		Short: "Show how far each lane or group is behind, in records and seconds, the worst first",
		Long: `Show how far each lane is behind, or with --groups each consumer group on the source, in records and seconds, the worst first.
What is not known comes before everything: it is not a lag of 0.

With --warn or --crit it is a check for monitoring: one line with figures, and exit code 0 (OK), 1 (WARNING), 2 (CRITICAL) or 3
(UNKNOWN: a lag is not known, or no service answers). It judges lanes and groups, or with --groups only groups. A threshold is
a number of records ("10000"), or a duration with its unit ("30s", "5m"): a number without a unit is always records.`,
		Example: `  lockstep lag --groups --top 10
  lockstep lag --group billing
  lockstep lag --warn 30s --crit 5m
  lockstep lag --groups --warn 10000 --crit 100000`,
		Args: cobra.ArbitraryArgs, // RunE refuses them: as a check with a code of its own
		RunE: func(cmd *cobra.Command, args []string) error {
			w.warn, w.crit = given(cmd, "warn"), given(cmd, "crit")
			err := w.valid(args)
			if w.checks() {
				return a.lagCheck(cmd, w, err)
			}
			if err != nil {
				return usage(err)
			}
			out, err := a.readLag(cmd, w)
			if err != nil {
				return err
			}
			return a.print(out, lagTable(w, out))
		},
	}
	f := c.Flags()
	f.StringVar(&w.link, "link", "", "only this link")
	f.BoolVar(&w.groups, "groups", false, "consumer groups instead of lanes")
	f.StringVar(&w.group, "group", "", "the positions of this group")
	f.IntVar(&w.top, "top", 0, "only so many, the worst (default all)")
	f.String("warn", "", "exit 1 above this: records (10000), or a duration with unit (30s)")
	f.String("crit", "", "exit 2 above this: records (100000), or a duration with unit (5m)")
	c.SetFlagErrorFunc(a.lagFlagError)
	return c
}

// given returns a flag's text, nil when the command line does not have it: an empty one is a mistake and not none.
func given(cmd *cobra.Command, flag string) *string {
	if f := cmd.Flags().Lookup(flag); f.Changed {
		text := f.Value.String()
		return &text
	}
	return nil
}

// valid refuses a command line that makes no sense.
func (w lagWanted) valid(args []string) error {
	switch {
	case len(args) > 0:
		return fmt.Errorf("%q is no flag (see lockstep lag --help)", args[0])
	case w.groups && w.group != "":
		return errors.New("--groups and --group exclude each other")
	case w.top < 0:
		return fmt.Errorf("--top %d: a number from 1 on", w.top)
	}
	return nil
}

// readLag asks the service for what is wanted, the worst first.
func (a *app) readLag(cmd *cobra.Command, w lagWanted) (api.LagAnswer, error) {
	out := api.LagAnswer{Schema: api.Schema, Lag: []api.Lag{}}
	err := a.ask(cmd, w.link, func(svc *api.Client, name string) error {
		if w.lanes() {
			lag, err := svc.Lag(cmd.Context(), name)
			out.Lag = append(out.Lag, lag...)
			return err
		}
		groups, err := groupLag(cmd.Context(), svc, name, w.group)
		out.Groups = append(out.Groups, groups...)
		return err
	})
	if err == nil && w.group != "" && out.Groups == nil {
		err = usage(fmt.Errorf("no group %q that has lag: lockstep groups list --all shows the groups", w.group))
	}
	slices.SortStableFunc(out.Lag, func(x, y api.Lag) int { return worseLag(x.Records, y.Records, x.Seconds, y.Seconds) })
	slices.SortStableFunc(out.Groups, func(x, y api.GroupLag) int { return worseLag(x.Records, y.Records, x.Seconds, y.Seconds) })
	if w.top > 0 {
		out.Lag, out.Groups = out.Lag[:min(w.top, len(out.Lag))], out.Groups[:min(w.top, len(out.Groups))]
	}
	return out, err
}

// groupLag reads the lag of a link's groups, or with a name of that group's positions: none if the link has no such group.
func groupLag(ctx context.Context, svc *api.Client, link, group string) ([]api.GroupLag, error) {
	if group == "" {
		groups, err := svc.Groups(ctx, link)
		return api.GroupLagOf(groups), err
	}
	g, err := svc.Group(ctx, link, group)
	var answer *api.Error
	if errors.As(err, &answer) && answer.Code == api.CodeNotFound {
		return nil, nil
	}
	return api.PositionLagOf(g), err
}

// worseLag puts what is not known first, then the largest lag.
func worseLag(x, y *int64, xs, ys *float64) int {
	if (x == nil) != (y == nil) {
		return map[bool]int{true: -1, false: 1}[x == nil]
	}
	return cmp.Or(cmp.Compare(orZero(y), orZero(x)), cmp.Compare(orZero(ys), orZero(xs)))
}

func orZero[N int64 | float64](p *N) N {
	if p == nil {
		return 0
	}
	return *p
}

func lagTable(w lagWanted, out api.LagAnswer) *table {
	switch {
	case w.group != "":
		t := &table{head: []string{"LINK", "GROUP", "TOPIC", "PARTITION", "STATE", "RECORDS", "SECONDS"}}
		for _, g := range out.Groups {
			t.add(g.Link, g.Group, g.Topic, strconv.Itoa(int(*g.Partition)), g.State, offset(g.Records), lagTime(g.Seconds, g.AtLeast))
		}
		return t
	case w.groups:
		t := &table{head: []string{"LINK", "GROUP", "STATE", "RECORDS", "SECONDS", "ALARMS"}}
		for _, g := range out.Groups {
			t.add(g.Link, g.Group, g.State, offset(g.Records), lagTime(g.Seconds, g.AtLeast), alarmsText(g.Alarms))
		}
		return t
	}
	t := &table{head: []string{"LINK", "TOPIC", "PARTITION", "STATE", "RECORDS", "SECONDS"}}
	for _, l := range out.Lag {
		t.add(l.Link, l.Topic, strconv.Itoa(int(l.Partition)), l.State, offset(l.Records), seconds(l.Seconds))
	}
	return t
}

func alarmsText(as []api.Alarm) string {
	var parts []string
	for _, al := range as {
		parts = append(parts, al.Kind+" "+al.Severity)
	}
	return strings.Join(parts, ", ")
}
