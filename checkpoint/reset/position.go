package reset

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"lockstep/checkpoint"
)

// Position is one committed position of one group, as files hold it.
type Position struct {
	Group string
	checkpoint.Key
	Offset   int64   // next to read
	Metadata *string // nil where the file's form has none
	Line     int     // of the file, from 1
	Note     string  // what a plan has to say about where it comes from
}

// Target makes a position what is to be reached.
func (p Position) Target() Target {
	return Target{Group: p.Group, Key: p.Key, Spec: Spec{Kind: ToOffset, N: p.Offset}, Metadata: p.Metadata, Line: p.Line, Note: p.Note}
}

// Sort orders positions by group, topic and partition.
func Sort(ps []Position) {
	slices.SortFunc(ps, func(a, b Position) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), a.Key.Compare(b.Key))
	})
}

// Of returns the committed positions of groups, sorted.
func Of(groups map[string]checkpoint.Group) []Position {
	var out []Position
	for _, g := range groups {
		for k, c := range g.Offsets {
			out = append(out, Position{Group: g.Name, Key: k, Offset: c.Offset, Metadata: &c.Metadata})
		}
	}
	Sort(out)
	return out
}

// Parse reads positions from a file of one of these forms, which it recognises by itself: our JSON; the CSV of
// kafka-consumer-groups.sh, with three columns (topic,partition,offset) for the given group or with four (the group
// first); what that tool prints with --describe. Group is only needed for three columns; with it, positions of other
// groups are left out.
//
// Errors name the line. A position that is there twice is an error, unless both say the same.
func Parse(text []byte, group string) ([]Position, error) {
	text = bytes.TrimPrefix(text, []byte("\xef\xbb\xbf"))
	var ps []Position
	var err error
	switch {
	case bytes.HasPrefix(bytes.TrimSpace(text), []byte("{")):
		ps, err = parseJSON(text)
	case isDescribe(text):
		ps, err = parseDescribe(text)
	default:
		ps, err = parseCSV(text, group)
	}
	if err != nil {
		return nil, err
	}
	if group != "" {
		all := len(ps)
		ps = slices.DeleteFunc(ps, func(p Position) bool { return p.Group != group })
		if all > 0 && len(ps) == 0 {
			return nil, fmt.Errorf("no position of group %q in it, but %d of others", group, all)
		}
	}
	if len(ps) == 0 {
		return nil, errors.New("no positions in it")
	}
	return distinct(ps)
}

// distinct leaves out repetitions and refuses contradictions: nobody can say which one is meant.
func distinct(ps []Position) ([]Position, error) {
	type name struct {
		group string
		key   checkpoint.Key
	}
	seen := make(map[name]Position, len(ps))
	out := ps[:0]
	for _, p := range ps {
		n := name{p.Group, p.Key}
		was, ok := seen[n]
		switch {
		case !ok:
			seen[n] = p
			out = append(out, p)
		case was.Offset != p.Offset || text(was.Metadata) != text(p.Metadata):
			return nil, at(p.Line, "%s of group %q is there twice, at %d and at %d (line %d)", p.Key, p.Group, p.Offset, was.Offset, was.Line)
		}
	}
	return out, nil
}

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// at is an error that names a line.
func at(line int, format string, args ...any) error {
	err := fmt.Errorf(format, args...)
	if line == 0 {
		return err
	}
	return fmt.Errorf("line %d: %w", line, err)
}

var errNoName = errors.New("the group has no name")

func parsePartition(text string) (int32, error) {
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("partition %q is not a number from 0 to %d", text, math.MaxInt32)
	}
	return int32(n), nil
}

func parseOffset(text string) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("offset %q is not a number from 0 on", text)
	}
	return n, nil
}

// parseTopic refuses what Kafka never accepts as a topic's name, so that a file of another kind is not taken for CSV.
func parseTopic(text string) (string, error) {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._-", r)
	}
	if text == "" || len(text) > 249 || strings.TrimFunc(text, plain) != "" {
		return "", fmt.Errorf("%q is no name of a topic", text)
	}
	return text, nil
}
