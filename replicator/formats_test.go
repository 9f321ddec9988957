package replicator

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lockstep/internal/model"
	"lockstep/replicator/batch"
)

// TestLane_EveryStoredFormat sends every fixture of the record formats, magic 0, 1 and 2 as brokers store them, through a
// lane and compares what would be produced with what the fixture holds.
func TestLane_EveryStoredFormat(t *testing.T) {
	t.Parallel()
	var files []string
	for _, dir := range []string{"longhand", "java"} {
		found, err := filepath.Glob(filepath.Join("batch", "testdata", dir, "*.bin"))
		if err != nil || len(found) == 0 {
			t.Fatalf("no fixtures in %s: %v", dir, err)
		}
		files = append(files, found...)
	}
	codecs, err := batch.NewCodecs(maxDecompressed)
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			raw, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			want := recordsOf(t, codecs, raw)
			got := throughALane(t, codecs, raw)
			if d := cmp.Diff(want, got); d != "" {
				t.Fatalf("records differ (-stored +sent):\n%s", d)
			}
		})
	}
}

// recordsOf decodes what a log holds, control batches left out.
func recordsOf(t *testing.T, codecs *batch.Codecs, raw []byte) (rs []batch.Record) {
	t.Helper()
	for h, b := range batch.Split(raw) {
		if h.Control() {
			continue
		}
		var err error
		if rs, err = codecs.AppendRecords(rs, b, 0); err != nil {
			t.Fatal(err)
		}
	}
	return rs
}

// throughALane returns the records of the batches that a lane makes of stored bytes, at the source offsets that plan and
// numbering give them.
func throughALane(t *testing.T, codecs *batch.Codecs, raw []byte) (rs []batch.Record) {
	t.Helper()
	_, l, s := newOpenLane(t)
	l.begin(2, testTerm, model.Cursor{SrcEpoch: -1}, l.m.now())
	l.accept(chunk{gen: l.gen, raw: append([]byte(nil), raw...), buf: newBuffer(l.m.budget, int64(len(raw))), at: l.m.now()})
	for l.prepareNext() {
	}
	if l.refusal != nil {
		t.Fatalf("refused: %+v", *l.refusal)
	}
	plan := l.takeJumps()
	l.jumpsDurable(plan)
	for o := l.take(s); o != nil; o = l.take(s) {
		if err := batch.Check(o.raw, batch.Limits{}); err != nil {
			t.Fatalf("a broker would refuse the batch: %v", err)
		}
		sent, err := codecs.AppendRecords(nil, o.raw, 0)
		if err != nil {
			t.Fatal(err)
		}
		for i := range sent {
			sent[i].Offset = sourceOf(plan.jumps, o.count+int64(i))
		}
		rs = append(rs, sent...)
		l.settle(o, l.cursor.Dst, nil)
	}
	return rs
}

// sourceOf follows the plan from an origin at source offset 0.
func sourceOf(jumps []model.Jump, count int64) int64 {
	src := count
	for _, j := range jumps {
		if j.Count <= count {
			src = j.Src + count - j.Count
		}
	}
	return src
}
