package kafkatest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Pair names a source topic and its copy.
type Pair struct{ Src, Dst string }

// CompareOptions narrow what Compare expects; zero is the whole committed source on the whole target.
type CompareOptions struct {
	SrcUncommitted bool            // the source is read uncommitted too: aborted records are expected on the target
	SrcFrom        map[int32]int64 // per partition, the first source offset that is expected on the target
	SrcTo          map[int32]int64 // per partition, the first source offset that is not (the copy's cursor)
	DstFrom        map[int32]int64 // per partition, where the copy begins on the target
	MaxDiffs       int             // differences to describe; default 10
}

// Kind says in what a copy differs.
type Kind string

// The kinds of differences. A swap of two records shows as one missing and one duplicate.
const (
	Missing   Kind = "missing"   // a source record is not on the target (here)
	Duplicate Kind = "duplicate" // a target record repeats an earlier source record
	Extra     Kind = "extra"     // a target record that the source does not have (here)
	Changed   Kind = "changed"   // a record differs in key, value, headers or time stamp
)

// Diff is one difference.
type Diff struct {
	Kind      Kind
	Pair      Pair
	Partition int32
	SrcOffset int64 // of the source record, or where the source stood
	DstOffset int64 // of the target record, or where the target stood
	What      string
}

func (d Diff) String() string {
	return fmt.Sprintf("%s/%d at source %d, %s/%d at target %d: %s: %s", d.Pair.Src, d.Partition, d.SrcOffset, d.Pair.Dst, d.Partition, d.DstOffset, d.Kind, d.What)
}

// Report is what Compare saw.
type Report struct {
	SrcRecords, DstRecords int64 // read and compared
	Diffs                  []Diff
	Differences            int64 // all of them; Diffs holds the first
}

// Err returns nil when the target is an exact copy, else an error that lists the first differences.
func (r Report) Err() error {
	if r.Differences == 0 {
		return nil
	}
	var b strings.Builder
	fmt.Fprintf(&b, "the copy differs in %d places (%d source records, %d target records):", r.Differences, r.SrcRecords, r.DstRecords)
	for _, d := range r.Diffs {
		b.WriteString("\n  " + d.String())
	}
	return fmt.Errorf("%s", b.String())
}

// Compare reads both sides, by no code of the product, and tells where the target is not an exact copy: per
// partition key, value (null is not empty), headers with order, repeats and nulls, time stamps as a consumer sees
// them, order, nothing missing, nothing twice. Aborted records are never expected on the target, nor allowed. The error
// is about reading; Report.Err is about the copy.
func Compare(ctx context.Context, src, dst Target, pairs []Pair, opts ...CompareOptions) (Report, error) {
	var o CompareOptions
	if len(opts) > 0 {
		o = opts[0]
	}
	if o.MaxDiffs == 0 {
		o.MaxDiffs = 10
	}
	cmp := &comparison{src: src, dst: dst, opts: o}
	for _, p := range pairs {
		if err := cmp.topic(ctx, p); err != nil {
			return cmp.report, fmt.Errorf("compare %s with %s: %w", p.Src, p.Dst, err)
		}
	}
	return cmp.report, nil
}

// MustEqual fails the test unless the target is an exact copy now.
func MustEqual(t testing.TB, src, dst Target, pairs []Pair, opts ...CompareOptions) {
	t.Helper()
	r, err := Compare(t.Context(), src, dst, pairs, opts...)
	if err == nil {
		err = r.Err()
	}
	if err != nil {
		t.Fatal(err)
	}
}

type comparison struct {
	src, dst Target
	opts     CompareOptions
	report   Report
}

// topic compares every partition that either side has; one that the source lacks must be empty.
func (c *comparison) topic(ctx context.Context, pair Pair) error {
	ss, err := rawMetadata(ctx, c.src, pair.Src)
	if err != nil {
		return err
	}
	ds, err := rawMetadata(ctx, c.dst, pair.Dst)
	if err != nil {
		return err
	}
	if len(ds) < len(ss) {
		c.add(Diff{Kind: Missing, Pair: pair, Partition: int32(len(ds)), What: fmt.Sprintf("the target has %d partitions, the source %d", len(ds), len(ss))})
	}
	for p := range int32(len(ds)) {
		l := &lineUp{comparison: c, pair: pair, partition: p}
		if err := l.open(ctx, int(p) < len(ss)); err != nil {
			return err
		}
		if err := l.run(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (c *comparison) add(d Diff) {
	c.report.Differences++
	if len(c.report.Diffs) < c.opts.MaxDiffs {
		c.report.Diffs = append(c.report.Diffs, d)
	}
}

// lineUp walks one partition of both sides.
type lineUp struct {
	*comparison
	pair      Pair
	partition int32
	s, d      *reader
	past      []*kgo.Record // the last source records, newest last: to tell duplicates
}

// lookAhead is how many records a loss or an insertion may span and still be told from changes.
const lookAhead = 100

func (l *lineUp) open(ctx context.Context, inSource bool) (err error) {
	l.d, err = newReader(ctx, l.dst, l.pair.Dst, l.partition, true, l.opts.DstFrom[l.partition])
	if err != nil {
		return err
	}
	if !inSource {
		l.s = &reader{}
		return nil
	}
	l.s, err = newReader(ctx, l.src, l.pair.Src, l.partition, !l.opts.SrcUncommitted, l.opts.SrcFrom[l.partition])
	if to, ok := l.opts.SrcTo[l.partition]; ok && err == nil {
		l.s.end = min(l.s.end, to)
	}
	return err
}

func (l *lineUp) run(ctx context.Context) error {
	for {
		s, err := l.s.peek(ctx, 0)
		if err != nil {
			return err
		}
		d, err := l.d.peek(ctx, 0)
		if err != nil {
			return err
		}
		switch {
		case s == nil && d == nil:
			return nil
		case s != nil && d != nil && difference(s, d) == "":
			l.take(1, 1)
		default:
			if err := l.explain(ctx, s, d); err != nil {
				return err
			}
		}
	}
}

// take moves both sides on.
func (l *lineUp) take(s, d int) {
	l.past = append(l.past, l.s.ahead[:s]...)
	l.past = l.past[max(0, len(l.past)-lookAhead):]
	l.s.skip(s)
	l.d.skip(d)
	l.report.SrcRecords += int64(s)
	l.report.DstRecords += int64(d)
}

// explain reports the difference at the head of both sides and moves on to where they agree again.
func (l *lineUp) explain(ctx context.Context, s, d *kgo.Record) error {
	if s == nil {
		l.surplus(d)
		return nil
	}
	if d == nil {
		l.missing(s)
		return nil
	}
	inDst, err := find(ctx, l.d, s)
	if err != nil {
		return err
	}
	inSrc, err := find(ctx, l.s, d)
	if err != nil {
		return err
	}
	switch {
	case inSrc > 0 && (inDst <= 0 || inSrc <= inDst):
		l.missing(s)
	case inDst > 0:
		l.surplus(d)
	default:
		l.note(Changed, s, d, difference(s, d))
		l.take(1, 1)
	}
	return nil
}

func (l *lineUp) missing(s *kgo.Record) {
	l.note(Missing, s, nil, describe(s))
	l.take(1, 0)
}

func (l *lineUp) surplus(d *kgo.Record) {
	kind := Extra
	if slices.ContainsFunc(l.past, func(p *kgo.Record) bool { return difference(p, d) == "" }) {
		kind = Duplicate
	}
	l.note(kind, nil, d, describe(d))
	l.take(0, 1)
}

// note records a difference; a side without a record is named by its position.
func (l *lineUp) note(kind Kind, s, d *kgo.Record, what string) {
	diff := Diff{Kind: kind, Pair: l.pair, Partition: l.partition, SrcOffset: l.s.position(), DstOffset: l.d.position(), What: what}
	if s != nil {
		diff.SrcOffset = s.Offset
	}
	if d != nil {
		diff.DstOffset = d.Offset
	}
	l.add(diff)
}

// position is the offset of the record that comes next, or where the reader stands when there is none.
func (r *reader) position() int64 {
	if len(r.ahead) > 0 {
		return r.ahead[0].Offset
	}
	return r.next
}

// find returns how far ahead r has a record equal to want, -1 when not within lookAhead.
func find(ctx context.Context, r *reader, want *kgo.Record) (int, error) {
	for i := range lookAhead {
		got, err := r.peek(ctx, i)
		if err != nil {
			return -1, err
		}
		if got == nil {
			break
		}
		if difference(want, got) == "" {
			return i, nil
		}
	}
	return -1, nil
}
