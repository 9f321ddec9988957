package replicator

import (
	"runtime"
	"testing"
	"weak"
)

// An answer is one array for very many lanes: whoever keeps a pointer into it keeps all of it, and the budget does not
// know.
func TestLane_KeepsNoBytesOfWhatItHasCopied(t *testing.T) {
	t.Parallel()
	_, l, s := newOpenLane(t)
	feed(t, l, 100, 3)
	bytes := weak.Make(&l.out[0].raw[0])
	o := l.take(s)
	l.settle(o, 10, nil)
	runtime.GC()
	if bytes.Value() != nil {
		t.Fatal("an idle lane keeps the bytes of its last fetch answer")
	}
	runtime.KeepAlive(l)
	runtime.KeepAlive(o)
}

// A broker that hung answers when it does not lead any more, and the lane has read on elsewhere.
func TestLane_LateAnswerOfAFormerLeaderChangesNothing(t *testing.T) {
	t.Parallel()
	_, l, s := newOpenLane(t)
	feed(t, l, 100, 3, 2)
	l.mu.Lock()
	l.fetchEpoch = 7 // of offset 104
	l.mu.Unlock()
	feed(t, l, 100, 3)
	pos, _, _, _ := l.position()
	if pos.Offset != 105 || pos.LastEpoch != 7 {
		t.Fatalf("the lane fetches at %d behind epoch %d, want 105 and 7", pos.Offset, pos.LastEpoch)
	}
	l.settle(l.take(s), 10, nil)
	if got := takeAll(l, s); len(got) != 1 || got[0].n != 2 {
		t.Fatalf("sent %d more batches, want the one behind", len(got))
	}
	if l.m.budget.Used() == 0 {
		t.Fatal("the budget counts nothing while a batch is under way")
	}
}
