package main

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	"lockstep/api"
	"lockstep/checkpoint"
	"lockstep/checkpoint/reset"
)

// translation is an answer that is to be printed.
type translation struct {
	query   translateQuery
	offsets []api.Offset
}

func newTranslation(q translateQuery, os []api.Offset) translation { return translation{q, os} }

// places are the answers, as they were asked for: where somebody goes on, on the side that was asked for.
func (t translation) places() (out []reset.Position) {
	for _, o := range t.offsets {
		p := reset.Position{Group: o.TargetGroup, Key: checkpoint.Key{Topic: o.TargetTopic, Partition: o.Partition}}
		answer := o.TargetOffset
		if t.query.reverse {
			p.Group, p.Topic, answer = o.Group, o.Topic, o.SourceOffset
		}
		if answer != nil && answered(o) {
			p.Offset = *answer
			out = append(out, p)
		}
	}
	return out
}

func answered(o api.Offset) bool {
	return o.State != api.OffsetUnknown && o.State != api.OffsetNotCopied
}

// asked returns the offset that was to be translated.
func (t translation) asked(o api.Offset) *int64 {
	if t.query.reverse {
		return o.TargetOffset
	}
	return o.SourceOffset
}

// unanswered makes positions, and named groups, without an answer visible in the exit code.
func (t translation) unanswered() error {
	lost, all := 0, 0
	with := make(map[string]bool)
	for _, o := range t.offsets {
		switch {
		case o.State == api.OffsetUnknown:
			lost++
			all++
		case answered(o):
			all++
		}
		with[o.Group] = with[o.Group] || o.State != api.OffsetNotCopied
	}
	for _, g := range t.query.groups {
		if !with[g] {
			lost++
			all++
		}
	}
	switch {
	case lost == 0:
		return nil
	case lost == all && t.query.ofGroups():
		return errors.New("no answer: no position of these groups lies in what the link copied")
	case lost == all:
		return errors.New("no answer: the link has no state for these partitions")
	}
	return &exitError{exitPartly, fmt.Errorf("%d of %d positions have no answer", lost, all)}
}

// printTranslated writes the answer to standard output, and what it cannot say there to standard error.
func (a *app) printTranslated(t translation) error {
	if isJobFormat(a.output) {
		return a.printJob(t)
	}
	if t.query.ofGroups() {
		notes := t.ages()
		if a.output == "csv" {
			notes = append(notes, t.notes()...)
		}
		a.note(append(notes, t.lonely()...))
		if a.output == "csv" {
			return reset.WriteCSV(a.stdout, t.places(), len(t.query.groups) == 1)
		}
	}
	return a.print(api.Offsets{Schema: api.Schema, Offsets: t.offsets}, offsetTable(t.offsets, t.query.ofGroups()))
}

func (a *app) note(lines []string) {
	for _, l := range lines {
		fmt.Fprintln(a.stderr, l)
	}
}

func offsetTable(os []api.Offset, groups bool) *table {
	if groups {
		return groupOffsetTable(os)
	}
	t := &table{head: []string{"LINK", "TOPIC", "PARTITION", "SOURCE OFFSET", "TARGET TOPIC", "TARGET OFFSET", "STATE"}}
	for _, o := range os {
		t.add(o.Link, o.Topic, strconv.Itoa(int(o.Partition)), offset(o.SourceOffset), o.TargetTopic, offset(o.TargetOffset), o.State)
	}
	return t
}

// groupOffsetTable is for people only, so names of the target are there where they differ, and long ones are cut into lines.
func groupOffsetTable(os []api.Offset) *table {
	t := &table{head: []string{"GROUP", "TOPIC", "PARTITION", "SOURCE", "TARGET", "STATE"}}
	for _, o := range os {
		t.addLines(names(o.Group, o.TargetGroup), names(o.Topic, o.TargetTopic), []string{strconv.Itoa(int(o.Partition))},
			[]string{offset(o.SourceOffset)}, []string{offset(o.TargetOffset)}, []string{o.State})
	}
	return t
}

// names are the lines of a name on the source and, where the target has another one, of that.
func names(src, dst string) []string {
	const width = 18 // of two columns, so that the table fits 80
	lines := chop(printable(src), width)
	if dst != src && dst != "" {
		lines = append(lines, chop("-> "+printable(dst), width)...)
	}
	return lines
}

// byTopic orders places by topic and partition; an error names what was given twice, which no starting position can hold.
func byTopic(places []reset.Position) ([]reset.Position, error) {
	out := slices.Clone(places)
	slices.SortStableFunc(out, func(a, b reset.Position) int { return a.Key.Compare(b.Key) })
	for i := range out[:max(len(out)-1, 0)] {
		if out[i].Key == out[i+1].Key {
			return nil, usage(fmt.Errorf("%s is asked for twice, and a job begins at one place", out[i].Key))
		}
	}
	return out, nil
}
