package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"lockstep/api"
	"lockstep/config"
)

// service returns a client of the running service: the one that --server names, else the one that the configuration
// would start, else the default address. Faults of the configuration are no hindrance: the service runs with the one from
// before them, and its status tells them.
func (a *app) service(cmd *cobra.Command) (*api.Client, error) {
	if a.server != "" {
		svc, err := api.NewClient(a.server, nil)
		if err != nil {
			return nil, usage(fmt.Errorf("--server: %w", err))
		}
		return svc, nil
	}
	cfg, err := a.load(cmd)
	var e *exitError
	var bad *config.Errors
	switch {
	case err == nil:
		return api.NewClient("http://"+cfg.API.Listen, nil)
	case errors.As(err, &bad):
		return a.serviceDespite(cmd, bad)
	case errors.As(err, &e) && a.configFile == "":
		return api.NewClient("", nil)
	}
	return nil, err
}

// serviceDespite is service with a configuration that has faults.
func (a *app) serviceDespite(cmd *cobra.Command, bad *config.Errors) (*api.Client, error) {
	source, err := a.source(cmd)
	if err != nil {
		return nil, err
	}
	addr, ok := config.Listen(source)
	if !ok {
		return nil, bad
	}
	fmt.Fprintf(a.stderr, "the configuration has %s (lockstep validate tells more); asking the service at %s\n", plural(len(bad.Faults), "fault"), addr)
	return api.NewClient("http://"+addr, nil)
}

// asked returns a client for a command that prints what the service tells, in any form.
func (a *app) asked(cmd *cobra.Command) (*api.Client, error) {
	if err := a.checkOutput("table", "json", "csv"); err != nil {
		return nil, err
	}
	return a.service(cmd)
}

// ask calls f for every link of the running service, or only for the named one.
func (a *app) ask(cmd *cobra.Command, only string, f func(svc *api.Client, name string) error) error {
	svc, err := a.asked(cmd)
	if err != nil {
		return err
	}
	return eachLink(cmd.Context(), svc, only, func(name string) error { return f(svc, name) })
}

// eachLink calls f for every link, or only for the named one.
func eachLink(ctx context.Context, b api.Backend, only string, f func(name string) error) error {
	links, err := b.Links(ctx)
	if err != nil {
		return err
	}
	found := false
	for _, l := range links {
		if only == "" || l.Name == only {
			found = true
			if err := f(l.Name); err != nil {
				return err
			}
		}
	}
	if !found {
		return usage(fmt.Errorf("no link %q: lockstep status lists the links", only))
	}
	return nil
}

func (a *app) statusCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Show the links of a running service: state, what would be lost now, lanes",
		RunE: func(cmd *cobra.Command, _ []string) error {
			svc, err := a.asked(cmd)
			if err != nil {
				return err
			}
			status, err := svc.Status(cmd.Context())
			if err != nil {
				return err
			}
			if err := a.print(status, a.statusTable(status.Links)); err != nil || a.output != "table" {
				return err
			}
			a.configTroubles(status.Config)
			return a.troubles(cmd.Context(), svc, status.Links)
		},
	}
}

// configTroubles prints one line for a configuration that is not the file's.
func (a *app) configTroubles(c *api.ConfigStatus) {
	if c == nil {
		return
	}
	if f := c.Failed; f != nil {
		more := ""
		if n := len(f.Faults) - 1; n > 0 {
			more = fmt.Sprintf(" (and %d more; the log and -o json have all)", n)
		}
		fmt.Fprintf(a.stdout, "\nthe changed configuration is not in force, since %s: %s%s\n", f.At.Format("2006-01-02 15:04:05Z"), f.Faults[0], more)
	}
	if len(c.Pending) > 0 {
		keys := make([]string, len(c.Pending))
		for i, p := range c.Pending {
			keys[i] = p.Key
		}
		fmt.Fprintf(a.stdout, "\nin force after the next start: %s\n", strings.Join(keys, ", "))
	}
}

// lanesWidth lets the table of links fit 100 columns where their names are not too long.
const lanesWidth = 24

func (a *app) statusTable(links []api.Link) *table {
	t := &table{head: []string{"LINK", "FROM", "TO", "STATE", "BEHIND", "SECONDS", "LANES", "GROUPS", "TERM", "SEAL"}}
	for _, l := range links {
		t.addLines([]string{l.Name}, []string{l.Source}, []string{l.Target}, []string{l.State}, []string{offset(l.RPO.Records)},
			[]string{seconds(l.RPO.Seconds)}, a.lanesLines(l.Lanes), []string{groupsText(l.Groups)}, []string{strconv.FormatUint(l.Term, 10)}, []string{l.Seal})
	}
	return t
}

// lanesLines has a line for each state where one for all is too long.
func (a *app) lanesLines(c api.Counts) []string {
	text := lanesText(c)
	if a.output == "table" && len(text) > lanesWidth {
		return lanesParts(c)
	}
	return []string{text}
}

// groupsText says how many groups are in step, of all.
func groupsText(c api.Counts) string {
	if c.Total == 0 {
		return "none"
	}
	if n := c.ByState["synced"]; n < c.Total {
		return fmt.Sprintf("%d of %d", n, c.Total)
	}
	return strconv.Itoa(c.Total)
}

func lanesText(c api.Counts) string { return cmp.Or(strings.Join(lanesParts(c), ", "), "none") }

func lanesParts(c api.Counts) (parts []string) {
	for state, n := range c.ByState {
		parts = append(parts, fmt.Sprintf("%d %s", n, state))
	}
	slices.Sort(parts)
	return parts
}

// shownPerReason is how many lanes that stopped for the same reason are shown one by one: what stopped 2,000 lanes is
// told three times, not 2,000 times.
const shownPerReason = 3

// troubles prints what needs somebody, with what to do: links, topics without lanes, lanes.
func (a *app) troubles(ctx context.Context, b api.Backend, links []api.Link) error {
	for _, link := range links {
		a.linkTroubles(link)
		lanes, err := b.Lanes(ctx, link.Name)
		if err != nil {
			return err
		}
		a.laneTroubles(link, lanes)
		groups, err := b.Groups(ctx, link.Name)
		if err != nil {
			return err
		}
		a.groupTroubles(link, groups)
		a.groupAlarms(link, groups)
	}
	return nil
}

func (a *app) linkTroubles(link api.Link) {
	if link.Reason != "" {
		fmt.Fprintf(a.stdout, "\n%s %s: %s%s\n  %s\n", link.Name, link.State, link.Reason, sinceText(link.Since), link.Detail)
		a.remedy(link.Remedy)
	}
	if link.GroupsUnread != "" && link.Reason == "" {
		fmt.Fprintf(a.stdout, "\n%s: nothing is known of its consumer groups\n  %s\n", link.Name, link.GroupsUnread)
	}
	a.kindLines(link)
	for _, u := range link.Unmatched {
		fmt.Fprintf(a.stdout, "\n%s: topics.include %q matches no topic of %s\n", link.Name, u.Pattern, link.Source)
		if u.Hint != "" {
			fmt.Fprintf(a.stdout, "  %s\n", harmless(u.Hint))
		}
	}
	for _, p := range link.Problems {
		what := "copied"
		if p.State == api.TopicNotInSync {
			what = "written as it should be"
		}
		fmt.Fprintf(a.stdout, "\n%s: topic %s is not %s: %s\n  %s\n", link.Name, p.Topic, what, p.State, p.Detail)
		a.remedy(p.Remedy)
	}
}

// kindLines prints what somebody has to know of what is kept in step besides records and groups: a line for each kind of
// which something differs, or that cannot be looked after.
func (a *app) kindLines(link api.Link) {
	for _, k := range link.Kept {
		if !k.Unkept() && k.Differs.Total == 0 {
			continue
		}
		fmt.Fprintf(a.stdout, "\n%s: %s: %s", link.Name, k.Kind, k.Condition)
		if k.Differs.Total > 0 {
			fmt.Fprintf(a.stdout, ", %s (lockstep topics diff %s)", lanesText(k.Differs), link.Name)
		}
		fmt.Fprintln(a.stdout)
		if k.Unkept() {
			fmt.Fprintln(a.stdout, "  "+harmless(k.Why))
			a.remedy(k.Remedy)
		}
	}
}

// laneTroubles leaves out lanes that stand still for the link's own reason.
func (a *app) laneTroubles(link api.Link, lanes []api.Lane) {
	var order []string
	byReason := make(map[string][]api.Lane)
	for _, l := range lanes {
		if l.Reason == "" || l.Reason == link.Reason {
			continue
		}
		if len(byReason[l.Reason]) == 0 {
			order = append(order, l.Reason)
		}
		byReason[l.Reason] = append(byReason[l.Reason], l)
	}
	for _, reason := range order {
		same := byReason[reason]
		shown := same
		if len(same) > shownPerReason+1 { // one more line tells no less than "and 1 more"
			shown = same[:shownPerReason]
		}
		for _, l := range shown {
			fmt.Fprintf(a.stdout, "\n%s:%s/%d %s: %s%s\n  %s\n", l.Link, l.Topic, l.Partition, l.State, l.Reason, sinceText(l.Since), l.Detail)
			a.remedy(l.Remedy)
		}
		if n := len(same) - len(shown); n > 0 {
			fmt.Fprintf(a.stdout, "\n%s: %s more lanes: %s\n  lockstep lanes list --link %s --state %s\n", link.Name, grouped(int64(n)), reason, link.Name, reason)
		}
	}
}

// groupAlarms prints the worst alarms of groups: critical ones first, then those that last longest.
func (a *app) groupAlarms(link api.Link, groups []api.Group) {
	type raised struct {
		group string
		api.Alarm
	}
	var all []raised
	for _, g := range groups {
		for _, al := range g.Alarms {
			all = append(all, raised{g.Group, al})
		}
	}
	slices.SortStableFunc(all, func(x, y raised) int { return cmp.Or(cmp.Compare(x.Severity, y.Severity), x.Since.Compare(y.Since)) })
	shown := all
	if len(all) > shownPerReason+1 {
		shown = all[:shownPerReason]
	}
	for _, al := range shown {
		fmt.Fprintf(a.stdout, "\n%s: group %s: %s %s%s\n  %s\n", link.Name, printable(al.group), al.Kind, al.Severity, sinceText(al.Since), al.Detail)
	}
	if n := len(all) - len(shown); n > 0 {
		fmt.Fprintf(a.stdout, "\n%s: %s more alarms of groups\n  lockstep lag --groups --link %s\n", link.Name, grouped(int64(n)), link.Name)
	}
}

func (a *app) remedy(text string) {
	if text != "" {
		fmt.Fprintf(a.stdout, "  what to do: %s\n", harmless(text))
	}
}

func sinceText(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return ", since " + t.Format("2006-01-02 15:04:05Z")
}
