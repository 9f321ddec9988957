package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"lockstep/api"
)

// ages says as of when the groups stood there, in a line for each way it is known.
func (t translation) ages() (out []string) {
	type span struct {
		groups   map[string]bool
		from, to time.Time
	}
	ways := make(map[string]*span)
	for _, o := range t.offsets {
		if o.AsOf == nil {
			continue
		}
		s, ok := ways[o.PositionFrom]
		if !ok {
			s = &span{make(map[string]bool), *o.AsOf, *o.AsOf}
			ways[o.PositionFrom] = s
		}
		s.groups[o.Group] = true
		s.from, s.to = earlier(s.from, *o.AsOf), later(s.to, *o.AsOf)
	}
	for _, way := range []string{api.FromService, api.FromCluster, api.FromStateTopic} {
		if s, ok := ways[way]; ok {
			out = append(out, fmt.Sprintf("positions of %s as of %s, %s", plural(int64(len(s.groups)), "group"), between(s.from, s.to), toldBy(way, t.query.reverse)))
		}
	}
	return out
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// between prints a time, or from when to when.
func between(from, to time.Time) string {
	a, b := from.UTC().Format(time.RFC3339), to.UTC().Format(time.RFC3339)
	if a == b {
		return a
	}
	return a + " to " + b
}

func toldBy(way string, reverse bool) string {
	side := "source"
	if reverse {
		side = "target"
	}
	switch way {
	case api.FromService:
		return "the running service's last look at the " + side
	case api.FromCluster:
		return "asked of the " + side + " itself"
	}
	return "when the state topic was last told of them: the source does not answer"
}

// maxNotes bounds how many positions are spoken of one by one.
const maxNotes = 20

// notes tell, for forms that only hold offsets, what is special about some of them, and which have no answer.
func (t translation) notes() (out []string) {
	more := 0
	for _, o := range t.offsets {
		text := t.special(o)
		switch {
		case text == "":
		case len(out) == maxNotes:
			more++
		default:
			out = append(out, text)
		}
	}
	if more > 0 {
		out = append(out, fmt.Sprintf("and %s more; -o json shows all", plural(int64(more), "position")))
	}
	return out
}

// special says what is special about an answer, in one line without characters that could end a comment.
func (t translation) special(o api.Offset) string {
	at := fmt.Sprintf("%s/%d at %s", nameText(o.Topic), o.Partition, offset(t.asked(o)))
	if o.Group != "" {
		at = "group " + nameText(o.Group) + ": " + at
	}
	switch o.State {
	case api.OffsetUnknown:
		return "no answer, left out: " + at
	case api.OffsetNotCopied:
		return "not copied by the link, left out: " + at
	case api.OffsetBeforeStart:
		return fmt.Sprintf("before_start: %s lies %s before the first copied record, which is the answer", at, plural(o.NeverCopied, "offset"))
	case api.OffsetAhead:
		return fmt.Sprintf("ahead: %s lies %s beyond what was copied, whose end is the answer", at, plural(o.Ahead, "offset"))
	}
	return ""
}

// lonely names the groups that were asked for and have no position in a topic of the link.
func (t translation) lonely() (out []string) {
	with := make(map[string]bool)
	for _, o := range t.offsets {
		with[o.Group] = with[o.Group] || o.State != api.OffsetNotCopied
	}
	for _, g := range t.query.groups {
		if !with[g] {
			out = append(out, fmt.Sprintf("no answer: group %s has no position in a topic of link %s", nameText(g), nameText(t.query.link)))
		}
	}
	return out
}

// nameText prints a name of others in a line: quoted, where it holds more than the characters of topics' names.
func nameText(name string) string {
	if name != "" && strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") == "" {
		return name
	}
	return strconv.QuoteToASCII(name)
}
