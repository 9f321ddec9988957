package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"lockstep/api"
	"lockstep/checkpoint"
	"lockstep/internal/model"
)

func (a *app) groupsCommand() *cobra.Command {
	c := &cobra.Command{Use: "groups", Short: "List consumer groups, show one and its past, and take care of those that are not in step"}
	c.AddCommand(a.groupsListCommand(), a.groupsShowCommand(), a.groupsHistoryCommand(), a.groupsAcceptCommand())
	return c
}

const offlineGroups = "\n\nIt asks the running service; with -c and no service there it reads the target alone: the positions that the source " +
	"showed last are in the state topic."

func (a *app) groupsListCommand() *cobra.Command {
	var link, order string
	var filter api.GroupFilter
	c := &cobra.Command{
		Use:   "list",
		Short: "List the consumer groups of the source and how they stand on the target",
		Long: "List the consumer groups of the source and how they stand on the target.\n\nLAG is how many source offsets a group has not read, LAG-TIME " +
			"for how long the oldest of them has waited, AGAIN how many records it would read a second time if it moved to the target now, AGE how old " +
			"these positions are. Groups that are left out, or have no position in a topic of the link, show with --all." + offlineGroups,
		RunE: func(cmd *cobra.Command, _ []string) error {
			compare, err := groupOrder(order)
			if err == nil {
				err = checkGroupStates(filter.States)
			}
			if err != nil {
				return usage(err)
			}
			out := api.Groups{Schema: api.Schema, Groups: []api.Group{}}
			err = a.askTarget(cmd, link, func(b api.Backend, name string) error {
				groups, err := filteredGroups(cmd, b, name, filter)
				out.Groups = append(out.Groups, groups...)
				return err
			})
			if err != nil {
				return err
			}
			slices.SortStableFunc(out.Groups, compare)
			if err := a.print(out, a.groupsTable(out.Groups)); err != nil || len(out.Groups) > 0 || a.output != "table" {
				return err
			}
			return a.explainNoGroups(cmd, link)
		},
	}
	f := c.Flags()
	f.StringVar(&link, "link", "", "only this link")
	f.StringSliceVar(&filter.States, "state", nil, "only groups in these states")
	f.BoolVar(&filter.All, "all", false, "also groups that are left out, or have nothing to do with the link")
	f.StringVar(&order, "sort", "name", "name, state (worst first), lag (largest first) or age (oldest first)")
	return c
}

// explainNoGroups says why a list of groups is empty.
func (a *app) explainNoGroups(cmd *cobra.Command, link string) error {
	return a.askTarget(cmd, link, func(b api.Backend, name string) error {
		groups, err := b.Groups(cmd.Context(), name)
		if err != nil {
			return err
		}
		if len(groups) == 0 {
			fmt.Fprintf(a.stderr, "%s: no groups were seen on the source yet; lockstep status tells whether the link is at work\n", name)
			return nil
		}
		counts := make(map[string]int)
		for _, g := range groups {
			counts[g.State]++
		}
		fmt.Fprintf(a.stderr, "%s: of %s of the source none is shown here: %s; --all shows them, and groups show GROUP says why\n", name, plural(len(groups), "group"),
			lanesText(api.Counts{ByState: counts}))
		return nil
	})
}

// filteredGroups lets a service choose; what the target shows is chosen here.
func filteredGroups(cmd *cobra.Command, b api.Backend, link string, f api.GroupFilter) ([]api.Group, error) {
	if svc, ok := b.(*api.Client); ok {
		return svc.FilteredGroups(cmd.Context(), link, f)
	}
	groups, err := b.Groups(cmd.Context(), link)
	return f.Apply(groups), err
}

// askTarget calls f for every link, or only for the named one, with the running service or, with -c and no service, what
// reads the targets themselves.
func (a *app) askTarget(cmd *cobra.Command, only string, f func(b api.Backend, name string) error) error {
	if err := a.checkOutput("table", "json", "csv"); err != nil {
		return err
	}
	b, done, err := a.backend(cmd, only)
	if err != nil {
		return err
	}
	defer done()
	return orOffline(eachLink(cmd.Context(), b, only, func(name string) error { return f(b, name) }))
}

func checkGroupStates(states []string) error {
	known := checkpoint.States()
	for _, s := range states {
		if !slices.Contains(known, checkpoint.State(s)) {
			return fmt.Errorf("--state %s: states are %s", s, joinStates(known))
		}
	}
	return nil
}

func joinStates(states []checkpoint.State) string {
	words := make([]string, len(states))
	for i, s := range states {
		words[i] = string(s)
	}
	return strings.Join(words, ", ")
}

// groupOrder returns how groups are sorted; those that are equal stay by link and name.
func groupOrder(by string) (func(a, b api.Group) int, error) {
	records := func(p *int64) int64 {
		if p == nil {
			return -1
		}
		return *p
	}
	age := func(p *float64) float64 {
		if p == nil {
			return -1
		}
		return *p
	}
	switch by {
	case "name":
		return func(a, b api.Group) int { return cmp.Compare(a.Group, b.Group) }, nil
	case "state":
		return func(a, b api.Group) int { return checkpoint.State(b.State).Compare(checkpoint.State(a.State)) }, nil
	case "lag":
		return func(a, b api.Group) int { return cmp.Compare(records(b.LagRecords), records(a.LagRecords)) }, nil
	case "age":
		return func(a, b api.Group) int { return cmp.Compare(age(b.AgeSeconds), age(a.AgeSeconds)) }, nil
	}
	return nil, fmt.Errorf("--sort %s: want name, state, lag or age", by)
}

const (
	groupsWidth = 80 // of the whole table, where that leaves names enough
	besideWidth = groupsWidth - len("on the source, on the target  ")
	minGroup    = 12
)

func (a *app) groupsTable(groups []api.Group) *table {
	if a.output == "csv" {
		return groupsCSV(groups)
	}
	t := &table{head: []string{"GROUP", "STATE", "TYPE", "PARTS", "LAG", "LAG-TIME", "AGAIN", "AGE"}}
	links := make(map[string]bool)
	for _, g := range groups {
		links[g.Link] = true
		t.add(g.Group, g.State, cmp.Or(g.Type, "-"), strconv.Itoa(g.Partitions.Total), offset(g.LagRecords), lagTime(g.LagSeconds, g.LagAtLeast),
			offset(g.RecordsAgain), seconds(g.AgeSeconds))
	}
	width := max(minGroup, groupsWidth-t.width(1))
	cut := &table{head: t.head}
	for i, row := range t.rows {
		cells := make([][]string, len(row))
		for j, text := range row {
			cells[j] = []string{text}
		}
		if len(links) > 1 {
			row[0] = groups[i].Link + ":" + row[0]
		}
		cells[0] = chop(printable(row[0]), width)
		cut.addLines(cells...)
	}
	return cut
}

func groupsCSV(groups []api.Group) *table {
	t := &table{head: []string{"LINK", "GROUP", "STATE", "TYPE", "PARTITIONS", "LAG", "LAG SECONDS", "AGAIN", "AGE SECONDS"}}
	for _, g := range groups {
		t.add(g.Link, g.Group, g.State, g.Type, strconv.Itoa(g.Partitions.Total), offset(g.LagRecords), decimal(g.LagSeconds), offset(g.RecordsAgain), decimal(g.AgeSeconds))
	}
	return t
}

// decimal prints a number for other programs, "-" when it is not known.
func decimal(p *float64) string {
	if p == nil {
		return "-"
	}
	return strconv.FormatFloat(*p, 'f', -1, 64)
}

// chop cuts a name into lines of at most width characters.
func chop(name string, width int) (lines []string) {
	r := []rune(name)
	for len(r) > width {
		lines, r = append(lines, string(r[:width])), r[width:]
	}
	return append(lines, string(r))
}

// lagTime prints seconds of which there may be more.
func lagTime(s *float64, atLeast bool) string {
	if s != nil && atLeast {
		return ">" + seconds(s)
	}
	return seconds(s)
}

func (a *app) groupsShowCommand() *cobra.Command {
	var link string
	c := &cobra.Command{
		Use:               "show GROUP",
		Short:             "Show a group with each of its positions, and what to do about those that are not in step",
		Long:              "Show a group with each of its positions, and what to do about those that are not in step." + offlineGroups,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.completeGroups,
		RunE: func(cmd *cobra.Command, args []string) error {
			var shown []api.GroupDetail
			err := a.askTarget(cmd, link, func(b api.Backend, name string) error {
				g, err := b.Group(cmd.Context(), name, args[0])
				if err == nil {
					shown = append(shown, g)
				} else if link != "" || !isNotFound(err) {
					return err
				}
				return nil
			})
			if err != nil {
				return err
			}
			return a.printGroups(args[0], shown)
		},
	}
	c.Flags().StringVar(&link, "link", "", "only this link")
	return c
}

func (a *app) printGroups(name string, groups []api.GroupDetail) error {
	switch {
	case len(groups) == 0:
		return usage(fmt.Errorf("no group %q on any link: lockstep groups list --all shows the groups", name))
	case a.output == "json" && len(groups) == 1:
		return a.print(api.GroupAnswer{Schema: api.Schema, Group: groups[0]}, nil)
	case a.output == "json":
		return usage(fmt.Errorf("%d links have a group %q: name one with --link", len(groups), name))
	case a.output == "csv":
		return a.print(nil, positionsTable(groups...))
	}
	for i, g := range groups {
		if i > 0 {
			fmt.Fprintln(a.stdout)
		}
		if err := groupTable(g).write(a.stdout); err != nil {
			return err
		}
		if len(g.Positions) == 0 {
			continue
		}
		fmt.Fprintln(a.stdout)
		if err := positionsTable(g).write(a.stdout); err != nil {
			return err
		}
		a.positionTroubles(g)
	}
	return nil
}

func groupTable(g api.GroupDetail) *table {
	t := &table{head: []string{"GROUP", g.Link + ":" + g.Group.Group}}
	t.add("state", g.State)
	if g.Detail != "" {
		t.addLines([]string{"what was seen"}, wrap(g.Detail, besideWidth))
	}
	if g.Remedy != "" {
		t.addLines([]string{"what to do"}, wrap(g.Remedy, besideWidth))
	}
	if g.TargetGroup != g.Group.Group {
		t.add("name on the target", g.TargetGroup)
	}
	t.add("type", cmp.Or(g.Type, "-"))
	t.add("on the source, on the target", cmp.Or(g.SourceState, "-")+", "+cmp.Or(g.TargetState, "-"))
	t.add("behind on the source", behindText(g.LagRecords, g.LagSeconds, g.LagAtLeast))
	t.add("would read again", offset(g.RecordsAgain))
	t.add("positions are this old", seconds(g.AgeSeconds))
	return t
}

func positionsTable(groups ...api.GroupDetail) *table {
	t := &table{head: []string{"TOPIC", "PARTITION", "SOURCE", "TRANSLATED", "TARGET", "STATE", "LAG", "AGAIN"}}
	for _, g := range groups {
		for _, p := range g.Positions {
			t.add(p.Topic, strconv.Itoa(int(p.Partition)), offset(p.SourceOffset), offset(p.TranslatedOffset), offset(p.TargetOffset), p.State,
				offset(p.LagRecords), offset(p.RecordsAgain))
		}
	}
	return t
}

// positionTroubles prints what was seen at positions, those with the same words together, and leaves out what is said of
// the group as a whole.
func (a *app) positionTroubles(g api.GroupDetail) {
	type words struct{ state, detail, remedy string }
	var order []words
	where := make(map[words][]string)
	for _, p := range g.Positions {
		w := words{p.State, p.Detail, p.Remedy}
		if p.Detail == "" || w == (words{g.State, g.Detail, g.Remedy}) {
			continue
		}
		if where[w] == nil {
			order = append(order, w)
		}
		where[w] = append(where[w], fmt.Sprintf("%s/%d", p.Topic, p.Partition))
	}
	for _, w := range order {
		fmt.Fprintf(a.stdout, "\n%s: %s\n", some(where[w]), w.state)
		a.paragraph(w.detail)
		if w.remedy != "" && w.state != string(checkpoint.StateSynced) {
			a.paragraph("what to do: " + w.remedy)
		}
	}
}

// paragraph prints sentences below what they are about.
func (a *app) paragraph(text string) {
	for _, line := range wrap(harmless(text), groupsWidth-len("  ")) {
		fmt.Fprintln(a.stdout, "  "+line)
	}
}

func (a *app) groupsHistoryCommand() *cobra.Command {
	var link string
	c := &cobra.Command{
		Use:               "history GROUP",
		Short:             "Show where a group stood over the last week",
		Long:              "Show where a group stood over the last week: some twenty moments, closer together the newer they are. Each topic is there at the times when something of it changed." + offlineGroups,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.completeGroups,
		RunE: func(cmd *cobra.Command, args []string) error {
			out := api.GroupHistory{Schema: api.Schema, History: []api.GroupMoment{}}
			found := false
			err := a.askTarget(cmd, link, func(b api.Backend, name string) error {
				moments, err := b.GroupHistory(cmd.Context(), name, args[0])
				if isNotFound(err) && link == "" {
					return nil
				}
				found = found || err == nil
				out.History = append(out.History, moments...)
				return err
			})
			if err != nil {
				return err
			}
			if !found {
				return usage(fmt.Errorf("no link knows a group %q: lockstep groups list --all shows the groups", args[0]))
			}
			return a.print(out, historyTable(out.History))
		},
	}
	c.Flags().StringVar(&link, "link", "", "only this link")
	return c
}

func historyTable(moments []api.GroupMoment) *table {
	t := &table{head: []string{"AT", "TOPIC", "PARTITION", "SOURCE", "TRANSLATED", "TARGET", "STATE"}}
	for _, m := range moments {
		for _, p := range m.Positions {
			t.add(m.At.Format(time.RFC3339), p.Topic, strconv.Itoa(int(p.Partition)), offset(p.SourceOffset), offset(p.TranslatedOffset), offset(p.TargetOffset), p.State)
		}
	}
	return t
}

func (a *app) groupsAcceptCommand() *cobra.Command {
	var c consent
	var link string
	cmd := &cobra.Command{
		Use:   "accept GROUP... --link LINK",
		Short: "Put groups where they stand on the source, whatever keeps them from it",
		Long: "Put groups where they stand on the source, whatever keeps them from it: that others moved them on the target or had them there " +
			"before, or that the source's position is suspect. Of a group that vanished from the source what is known is forgotten; the target keeps its " +
			"positions. Groups with members on the target are left alone.",
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: a.completeGroups,
		RunE: func(cmd *cobra.Command, args []string) error {
			if link == "" {
				return usage(fmt.Errorf("--link is missing: name the link whose groups these are"))
			}
			return a.give(cmd, &c, linkOrder{link, model.Order{Kind: model.OrderAccept, Groups: args}})
		},
	}
	cmd.Flags().StringVar(&link, "link", "", "the link")
	c.addFlags(cmd)
	return cmd
}

// groupTroubles prints the states that want somebody, each with some of the groups in it.
func (a *app) groupTroubles(link api.Link, groups []api.Group) {
	of := make(map[checkpoint.State][]api.Group)
	for _, g := range groups {
		if s := checkpoint.State(g.State); s.Wanting() {
			of[s] = append(of[s], g)
		}
	}
	states := slices.SortedFunc(maps.Keys(of), func(a, b checkpoint.State) int { return b.Compare(a) })
	for _, s := range states {
		same := of[s]
		shown := same
		if len(same) > shownPerReason+1 {
			shown = same[:shownPerReason]
		}
		for _, g := range shown {
			fmt.Fprintf(a.stdout, "\n%s: group %s: %s\n  %s\n", link.Name, printable(g.Group), g.State, harmless(g.Detail))
			a.remedy(g.Remedy)
		}
		if n := len(same) - len(shown); n > 0 {
			fmt.Fprintf(a.stdout, "\n%s: %s more groups: %s\n  lockstep groups list --link %s --state %s\n", link.Name, grouped(int64(n)), s, link.Name, s)
		}
	}
}
