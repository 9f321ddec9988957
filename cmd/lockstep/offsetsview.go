package main

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/twmb/franz-go/pkg/kerr"

	"lockstep/api"
	"lockstep/checkpoint/reset"
	"lockstep/internal/when"
)

const (
	// maxMoves is how many moves a plan shows to people, and how many have their records looked at. JSON has all moves.
	maxMoves = 100
	keyWidth = 14 // of a record's key, quotes included
	maxLines = 20 // of one kind of remark
)

// places are the positions whose records the plan shows.
func (m *mover) places() []reset.Place {
	seen := make(map[reset.Place]bool)
	var out []reset.Place
	for _, v := range m.plan.Moves[:min(len(m.plan.Moves), maxMoves)] {
		for _, off := range []int64{v.Old, v.New} {
			if p := (reset.Place{Key: v.Key, Offset: off}); off >= 0 && v.Refused == "" && !seen[p] {
				seen[p] = true
				out = append(out, p)
			}
		}
	}
	return out
}

// position names an offset, "none" where there is no position.
func position(off int64) string {
	if off < 0 {
		return "none"
	}
	return strconv.FormatInt(off, 10)
}

// showPlan implements view: a table for each group, then what is to be said about it.
func (m *mover) showPlan(w io.Writer) error {
	fmt.Fprintf(w, "%s, on cluster %s\n", m.does, m.cluster.Name())
	shown := m.plan.Moves[:min(len(m.plan.Moves), maxMoves)]
	for len(shown) > 0 {
		n := 1
		for n < len(shown) && shown[n].Group == shown[0].Group {
			n++
		}
		if err := m.showGroup(w, shown[:n]); err != nil {
			return err
		}
		shown = shown[n:]
	}
	if more := len(m.plan.Moves) - maxMoves; more > 0 {
		fmt.Fprintf(w, "\nand %s more: -o json has all\n", plural(more, "position"))
	}
	fmt.Fprintln(w)
	m.remarks(w)
	fmt.Fprintln(w, m.summary())
	return nil
}

// showGroup shows the moves of one group: two lines for each, the old position and the new one.
func (m *mover) showGroup(w io.Writer, moves []reset.Move) error {
	fmt.Fprintf(w, "\ngroup %s\n", printable(moves[0].Group))
	t := &table{head: []string{"PARTITION", "OFFSET", "DIFFERENCE", "NEXT KEY", "NEXT TIME"}}
	for _, v := range moves {
		key, at := m.record(v, v.Old)
		t.add(v.Key.String(), position(v.Old), "", key, at)
		if v.Refused != "" {
			t.add("", "refused", "", "", "")
			continue
		}
		key, at = m.record(v, v.New)
		t.add("", "-> "+position(v.New), difference(v), key, at)
	}
	return t.write(w)
}

// difference is how far a position moves, in offsets.
func difference(v reset.Move) string {
	if v.Old < 0 || v.New < 0 {
		return ""
	}
	d := grouped(v.New - v.Old)
	if v.New > v.Old {
		d = "+" + d
	}
	return d
}

// record shows key and time of what is read next at a position.
func (m *mover) record(v reset.Move, off int64) (key, at string) {
	r, ok := m.records[reset.Place{Key: v.Key, Offset: off}]
	switch {
	case !ok:
		return "", ""
	case errors.Is(r.Err, kerr.OffsetOutOfRange):
		return "", "outside the log"
	case r.Err != nil:
		return "", "not read"
	case r.End:
		return "", "end"
	case r.Key == nil:
		return "null", timeText(r.Time)
	}
	return cutKey(string(r.Key)), timeText(r.Time)
}

func timeText(t time.Time) string {
	if t.UnixMilli() < 0 {
		return "no time"
	}
	return when.Text(t)
}

// cutKey quotes a key as Go does, so that every byte can be printed, and cuts it to the column's width.
func cutKey(key string) string {
	q := strconv.Quote(key)
	if utf8.RuneCountInString(q) <= keyWidth {
		return q
	}
	return string([]rune(q)[:keyWidth-1]) + "…"
}

// remarks are what a table has no place for. Equal ones of many partitions are told once.
func (m *mover) remarks(w io.Writer) {
	for _, text := range firstOf(m.plan.Warnings) {
		fmt.Fprintln(w, "warning:", text)
	}
	tell(w, "refused", m.plan.Moves, func(v reset.Move) string { return v.Refused })
	tell(w, "note", m.plan.Moves, func(v reset.Move) string { return v.Note })
}

func firstOf(lines []string) []string {
	if more := len(lines) - maxLines; more > 0 {
		return append(lines[:maxLines:maxLines], fmt.Sprintf("and %d more: -o json has all", more))
	}
	return lines
}

// tell prints what was said about moves, each sentence once per group with the partitions that it is about.
func tell(w io.Writer, kind string, moves []reset.Move, of func(reset.Move) string) {
	type about struct{ group, text string }
	var order []about
	where := make(map[about][]string)
	for _, v := range moves {
		if text := of(v); text != "" {
			a := about{v.Group, text}
			if where[a] == nil {
				order = append(order, a)
			}
			where[a] = append(where[a], v.Key.String())
		}
	}
	var lines []string
	for _, a := range order {
		lines = append(lines, fmt.Sprintf("%s: group %s, %s: %s", kind, printable(a.group), some(where[a]), a.text))
	}
	for _, l := range firstOf(lines) {
		fmt.Fprintln(w, l)
	}
}

// some names the first of many.
func some(names []string) string {
	const most = 3
	if more := len(names) - most; more > 0 {
		return strings.Join(names[:most], ", ") + fmt.Sprintf(" and %d more", more)
	}
	return strings.Join(names, ", ")
}

// summary counts the moves.
func (m *mover) summary() string {
	var moving, same, denied int
	for _, v := range m.plan.Moves {
		switch {
		case v.Refused != "":
			denied++
		case v.Old == v.New:
			same++
		default:
			moving++
		}
	}
	out := plural(moving, "position") + " to move"
	if same > 0 {
		out += fmt.Sprintf(", %d unchanged", same)
	}
	if denied > 0 {
		out += fmt.Sprintf(", %d refused", denied)
	}
	return out
}

// showResult implements view.
func (m *mover) showResult(w io.Writer) error {
	tell(w, "refused", m.plan.Moves, func(v reset.Move) string { return v.Refused })
	tell(w, "failed", m.plan.Moves, func(v reset.Move) string { return v.Error })
	fmt.Fprintf(w, "written %d, verified %d\n", m.counts.Written, m.counts.Verified)
	if m.id != "" {
		fmt.Fprintf(w, "the old positions are kept: %s %s\n", m.again, m.id)
	}
	return nil
}

// movesAnswer is a plan, or how it ended, as JSON.
type movesAnswer struct {
	Schema   int        `json:"schema"`
	Cluster  string     `json:"cluster"`
	Does     string     `json:"does"`
	Warnings []string   `json:"warnings"`
	Moves    []moveJSON `json:"moves"`
	Written  int        `json:"written"`
	Verified int        `json:"verified"`
	Undo     string     `json:"undo,omitempty"` // the name under which the old positions are kept
}

type moveJSON struct {
	Group     string      `json:"group"`
	Topic     string      `json:"topic"`
	Partition int32       `json:"partition"`
	Old       *int64      `json:"old"` // null: no position
	New       *int64      `json:"new"`
	OldRecord *recordJSON `json:"old_record,omitempty"` // only of the first moves
	NewRecord *recordJSON `json:"new_record,omitempty"`
	Note      string      `json:"note,omitempty"`
	Refused   string      `json:"refused,omitempty"`
	Done      bool        `json:"done"`
	Error     string      `json:"error,omitempty"`
}

// recordJSON is the record that is read next at a position.
type recordJSON struct {
	Offset *int64  `json:"offset,omitempty"`
	Key    *string `json:"key,omitempty"` // quoted as Go does; left out when the record has none
	Time   string  `json:"time,omitempty"`
	End    bool    `json:"end,omitempty"` // there is no record
	Error  string  `json:"error,omitempty"`
}

// answer implements view.
func (m *mover) answer() any {
	out := movesAnswer{Schema: api.Schema, Cluster: m.cluster.Name(), Does: m.does, Warnings: append([]string{}, m.plan.Warnings...),
		Moves: make([]moveJSON, len(m.plan.Moves)), Written: m.counts.Written, Verified: m.counts.Verified, Undo: m.id}
	for i, v := range m.plan.Moves {
		out.Moves[i] = moveJSON{Group: v.Group, Topic: v.Topic, Partition: v.Partition, Old: api.Known(v.Old), New: api.Known(v.New), Note: v.Note,
			OldRecord: m.recordJSON(v, v.Old), NewRecord: m.recordJSON(v, v.New), Refused: v.Refused, Done: v.Done, Error: v.Error}
	}
	return out
}

func (m *mover) recordJSON(v reset.Move, off int64) *recordJSON {
	r, ok := m.records[reset.Place{Key: v.Key, Offset: off}]
	switch {
	case !ok:
		return nil
	case r.Err != nil:
		return &recordJSON{Error: r.Err.Error()}
	case r.End:
		return &recordJSON{End: true}
	}
	out := &recordJSON{Offset: &r.Offset, Time: timeText(r.Time)}
	if r.Key != nil {
		q := strconv.Quote(string(r.Key))
		out.Key = &q
	}
	return out
}
