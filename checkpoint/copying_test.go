package checkpoint

import (
	"fmt"
	"slices"
	"strings"

	"pgregory.net/rapid"

	"lockstep/internal/model"
	"lockstep/offsetsync"
)

// copying is a naive model of one lane: two logs, one element per offset that holds something, and which record was put
// where. Its map is built anew from that each time.
type copying struct {
	source []sourceRecord // what the source's log holds, in order; markers and aborted records are only missing offsets
	srcEnd int64
	target []targetRecord
	dstEnd int64
	spans  []model.Span // of the branch in force
	src    int64        // the cursor
	open   uint64
	start  int64 // of the target's log
	first  int64 // where the copying began
	births int
}

// sourceRecord is one record; id tells it from one of another branch at the same offset.
type sourceRecord struct {
	off int64
	id  int
}

// targetRecord is a record on the target; src is where it came from, -1 when a stranger wrote it or its branch is over.
type targetRecord struct {
	dst, src int64
	id       int
	stranger bool
}

func newCopying(t *rapid.T) *copying {
	c := &copying{open: 1}
	c.write(t)
	c.first = rapid.Int64Range(0, c.srcEnd).Draw(t, "copied from")
	c.src = c.first
	c.dstEnd = rapid.SampledFrom([]int64{0, 0, 7}).Draw(t, "target end")
	c.spans = []model.Span{{Src: c.src, Dst: c.dstEnd}}
	return c
}

// step lets something happen to the logs.
func (c *copying) step(t *rapid.T) {
	switch rapid.IntRange(0, 9).Draw(t, "what happens") {
	case 0, 1:
		c.write(t)
	case 2, 3, 4:
		c.copy(rapid.IntRange(1, 12).Draw(t, "records copied"))
	case 5:
		c.compact(t)
	case 6:
		c.crash(c.src)
	case 7:
		c.truncate(t)
	case 8:
		c.dstEnd++
		c.target = append(c.target, targetRecord{dst: c.dstEnd - 1, src: -1, stranger: true})
	case 9:
		c.start = rapid.Int64Range(c.start, c.dstEnd).Draw(t, "target log start")
		c.target = slices.DeleteFunc(c.target, func(r targetRecord) bool { return r.dst < c.start })
	}
}

// write appends records, and in between offsets that no reader sees: markers and records of aborted transactions.
func (c *copying) write(t *rapid.T) {
	for _, n := range rapid.SliceOfN(rapid.IntRange(-3, 6), 1, 6).Draw(t, "runs of records, or of unseen offsets") {
		for range max(n, 0) {
			c.births++
			c.source = append(c.source, sourceRecord{c.srcEnd, c.births})
			c.srcEnd++
		}
		c.srcEnd += int64(max(-n, 0))
	}
}

// copy copies records from the cursor on; with the last of them the cursor moves behind what no reader sees.
func (c *copying) copy(n int) {
	for _, r := range c.source {
		if r.off < c.src {
			continue
		}
		if n == 0 {
			return
		}
		n--
		c.spans = append(c.spans, model.Span{Src: r.off, Dst: c.dstEnd, N: 1})
		c.target = append(c.target, targetRecord{dst: c.dstEnd, src: r.off, id: r.id})
		c.src, c.dstEnd = r.off+1, c.dstEnd+1
	}
	c.src = c.srcEnd
}

// compact removes records from the source, copied or not.
func (c *copying) compact(t *rapid.T) {
	c.source = slices.DeleteFunc(c.source, func(sourceRecord) bool { return rapid.IntRange(0, 3).Draw(t, "superseded") == 0 })
}

// crash lets a new term begin at a source offset, with a marker on the target. What was copied from there on has no source
// any more.
func (c *copying) crash(at int64) {
	c.open++
	c.dstEnd++
	c.src, c.first = at, min(c.first, at)
	c.spans = slices.DeleteFunc(c.spans, func(s model.Span) bool { return s.Src+s.N > at || s.N == 0 && s.Src == at })
	c.spans = append(c.spans, model.Span{Src: at, Dst: c.dstEnd})
	for i, r := range c.target {
		if r.src >= at {
			c.target[i].src = -1
		}
	}
}

// truncate takes the source's end away. If that had been copied the lane goes back.
func (c *copying) truncate(t *rapid.T) {
	c.srcEnd = rapid.Int64Range(0, c.srcEnd).Draw(t, "source truncated to")
	c.source = slices.DeleteFunc(c.source, func(r sourceRecord) bool { return r.off >= c.srcEnd })
	if c.srcEnd < c.src {
		c.crash(c.srcEnd)
	}
}

// lane is what a plan is told.
func (c *copying) lane(t *rapid.T, forgetful bool) Lane {
	m := &offsetsync.Map{}
	for _, s := range c.spans {
		if err := m.Append(s); err != nil {
			t.Fatal(err)
		}
	}
	if err := m.SetEnd(c.src, c.dstEnd); err != nil {
		t.Fatal(err)
	}
	if forgetful {
		m.DropBefore(c.start)
	}
	return Lane{DstTopic: "orders", Map: m, Opening: c.open, SrcEnd: c.srcEnd, DstStart: c.start, DstEnd: c.dstEnd}
}

// check compares what a group reads that stands at src on the source and at dst on the target: no record that was copied
// may be left out or read again, and none of a branch that is over may be read before those of the one in force.
func (c *copying) check(t *rapid.T, src, dst int64) {
	for _, r := range c.target {
		if r.src >= 0 && (r.src >= src) != (r.dst >= dst) {
			t.Fatalf("source %d is target %d: the record %d → %d is on the other side\n%s", src, dst, r.src, r.dst, c)
		}
	}
	if r := c.readFirst(dst); r.id != 0 && r.src < 0 {
		t.Fatalf("source %d is target %d: reads %d first, which the source has lost\n%s", src, dst, r.dst, c)
	}
	next, want := c.nextOnTarget(dst), c.nextOnSource(src)
	if next.id != want {
		t.Fatalf("source %d is target %d: reads record %d next (%d → %d), on the source it is record %d\n%s", src, dst, next.id, next.src, next.dst, want, c)
	}
}

// readFirst is the first record behind dst that is not a stranger's.
func (c *copying) readFirst(dst int64) targetRecord {
	for _, r := range c.target {
		if r.dst >= dst && !r.stranger {
			return r
		}
	}
	return targetRecord{}
}

// nextOnTarget is the first record behind dst that the source still has.
func (c *copying) nextOnTarget(dst int64) targetRecord {
	for _, r := range c.target {
		if r.dst >= dst && r.src >= 0 && slices.Contains(c.source, sourceRecord{r.src, r.id}) {
			return r
		}
	}
	return targetRecord{}
}

// nextOnSource is the id of the first record behind src that the target holds; 0 when there is none.
func (c *copying) nextOnSource(src int64) int {
	for _, r := range c.source {
		held := func(d targetRecord) bool { return d.src == r.off && d.id == r.id }
		if r.off >= src && slices.ContainsFunc(c.target, held) {
			return r.id
		}
	}
	return 0
}

func (c *copying) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "source %v, end %d\ntarget %v, from %d to %d\nspans %v, cursor %d, opening %d", c.source, c.srcEnd, c.target, c.start, c.dstEnd, c.spans, c.src, c.open)
	return b.String()
}
