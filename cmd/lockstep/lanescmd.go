package main

import (
	"fmt"
	"regexp"
	"strconv"

	"github.com/spf13/cobra"

	"lockstep/api"
)

func (a *app) lanesCommand() *cobra.Command {
	c := &cobra.Command{Use: "lanes", Short: "List lanes, show one, and take care of those that stopped"}
	c.AddCommand(a.lanesListCommand(), a.lanesShowCommand(), a.lanesRetryCommand(), a.lanesSkipCommand(), a.lanesRebuildCommand())
	return c
}

func (a *app) lanesListCommand() *cobra.Command {
	var link string
	var filter api.LaneFilter
	c := &cobra.Command{
		Use:   "list",
		Short: "List lanes with state and positions",
		RunE: func(cmd *cobra.Command, _ []string) error {
			out := api.Lanes{Schema: api.Schema, Lanes: []api.Lane{}}
			err := a.ask(cmd, link, func(svc *api.Client, name string) error {
				lanes, err := svc.FilteredLanes(cmd.Context(), name, filter)
				out.Lanes = append(out.Lanes, lanes...)
				return err
			})
			if err != nil {
				return err
			}
			t := &table{head: []string{"LANE", "STATE", "SOURCE", "TARGET", "BEHIND", "TERM", "COPIED"}}
			for _, l := range out.Lanes {
				t.add(fmt.Sprintf("%s:%s/%d", l.Link, l.Topic, l.Partition), l.Shown(), strconv.FormatInt(l.SourceOffset, 10),
					strconv.FormatInt(l.TargetOffset, 10), offset(l.LagRecords), strconv.FormatUint(l.Term, 10), grouped(l.CopiedRecords))
			}
			return a.print(out, t)
		},
	}
	c.Flags().StringVar(&link, "link", "", "only this link")
	c.Flags().StringSliceVar(&filter.Topics, "topic", nil, "only these source topics")
	c.Flags().StringSliceVar(&filter.States, "state", nil, "only lanes in these states or with these reasons")
	return c
}

func (a *app) lanesShowCommand() *cobra.Command {
	return &cobra.Command{
		Use:               "show LINK:TOPIC/PARTITION",
		Short:             "Show all of one lane",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.completeLanes,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := a.checkOutput("table", "json"); err != nil {
				return err
			}
			link, topic, partition, err := parseLane(args[0])
			if err != nil {
				return usage(err)
			}
			svc, err := a.service(cmd)
			if err != nil {
				return err
			}
			l, err := svc.Lane(cmd.Context(), link, topic, partition)
			if err != nil {
				return err
			}
			return a.print(api.LaneAnswer{Schema: api.Schema, Lane: l}, laneTable(l))
		},
	}
}

func laneTable(l api.LaneDetail) *table {
	t := &table{head: []string{"LANE", fmt.Sprintf("%s:%s/%d", l.Link, l.Topic, l.Partition)}}
	t.add("state", l.Shown()+" for "+age(l.Since))
	if l.Reason != "" {
		t.addLines([]string{"what was seen"}, wrap(l.Detail, 64))
		t.add("what to do", l.Remedy)
	}
	t.add("target topic", l.TargetTopic)
	t.add("next to read at the source", strconv.FormatInt(l.SourceOffset, 10))
	t.add("next to write at the target", strconv.FormatInt(l.TargetOffset, 10))
	t.add("source log start, stable end, end", offset(l.SourceStartOffset)+", "+offset(l.SourceStableOffset)+", "+offset(l.SourceEndOffset))
	t.add("behind", behindText(l.LagRecords, l.LagSeconds, false))
	t.add("term, opening, count", fmt.Sprintf("%d, %d, %d", l.Term, l.Opening, l.Count))
	t.add("spans of the offset map", strconv.Itoa(l.Spans))
	t.add("source topic's id", l.SourceTopicID)
	t.add("target topic's id", l.TargetTopicID)
	t.add("gaps", strconv.Itoa(len(l.Gaps)))
	return t
}

var lanePattern = regexp.MustCompile(`^([a-zA-Z0-9._-]+):([a-zA-Z0-9._-]+)/([0-9]+)$`)

func parseLane(s string) (link, topic string, partition int32, err error) {
	m := lanePattern.FindStringSubmatch(s)
	if m == nil {
		return "", "", 0, fmt.Errorf("lane %q: want LINK:TOPIC/PARTITION, as in dr:orders/3", s)
	}
	p, err := strconv.ParseInt(m[3], 10, 32)
	if err != nil {
		return "", "", 0, fmt.Errorf("lane %q: the partition is too large", s)
	}
	return m[1], m[2], int32(p), nil
}
