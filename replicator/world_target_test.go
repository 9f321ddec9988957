package replicator

import (
	"encoding/binary"
	"math"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"lockstep/internal/kafka"
	"lockstep/internal/model"
	"lockstep/offsetsync"
	"lockstep/replicator/batch"
)

// remembered is what a partition's leader remembers of one producer id.
type remembered struct {
	epoch int16
	last  []accepted // the newest five batches of this epoch, the newest last
	seq   int32      // the newest sequence of this epoch, -1 for none
	ts    int64      // record time of the newest batch
}

// accepted is a batch by its sequences: a leader never looks at content.
type accepted struct {
	first, last int32
	base        int64
}

// target is a partition of the target cluster, as its leader treats it. Source of the rules: measured.md.
type target struct {
	w     *world
	lane  model.Lane
	part  kafka.Part
	log   []stored
	start int64
	hw    int64 // what readers and ListOffsets see
	end   int64
	known map[int64]*remembered

	leaderless, weak bool
	refuses          int    // so many produce requests get NOT_LEADER, as right after the topic was created
	sealed           uint64 // newest term that a sealer was told to stand here

	shut     bool            // a failover has reported it as sealed: the link appends nothing any more
	copies   []placed        // the link's records in the order of their appends
	orphans  []model.Gap     // what the ledger says of copies that the source lost
	pending  []model.Gap     // such entries that no opening has followed yet
	alone    map[placed]bool // copies of which the source had no record when the ledger said so
	openings uint64
	origin   int64        // source offset from which on the lane is copied, -1 before it is opened
	taken    bool         // something stood here before the lane was opened
	stored   model.Cursor // the newest that stands in the state topic
	knew     bool         // at the newest seal the leader knew how far the ended term came

	hiddenFrom, hiddenTo int64 // what a log that looked empty held when the state topic was wiped
}

// placed is one copy of a source record. A record stands twice where nobody could know that the source still has it.
type placed struct {
	*truth
	at int64
}

// orphan reports whether the ledger says that a copy stands on the target only.
func (t *target) orphan(c placed) bool {
	return slices.ContainsFunc(t.orphans, func(g model.Gap) bool { return t.within(g, c) })
}

func (t *target) within(g model.Gap, c placed) bool {
	return g.From <= c.off && c.off < g.To && c.at < g.DstTo && (g.DstFrom <= c.at || c.at < t.start) // retention moves DstFrom
}

// cleanedUnseen reports whether the newest header of a lane's term that readers could see is gone: the cleaner took it, which
// keeps a producer's newest batch, or the log's start moved, and the newest batch is still behind the high watermark. Until it
// is replicated, a picture made of headers lags, or counts by the leader's memory what it cannot place yet; no record is
// left in what it misses. (A recovery seals before it reads, and so sees all.)
func (t *target) cleanedUnseen(st offsetsync.LaneState) bool {
	term, newest, unseen := st.Opening.Term, int64(-1), false
	for _, c := range t.copies {
		if c.at >= st.Cursor.Dst && c.at < t.hw {
			newest = c.at
		}
	}
	for _, b := range t.log {
		if b.PID != term.PID || b.Epoch != term.Epoch || b.Control() {
			continue
		}
		if b.BaseOffset <= newest && newest < b.Next() {
			return false
		}
		unseen = unseen || b.BaseOffset >= t.hw
	}
	return newest >= 0 && unseen
}

// hid reports whether a log that held something looked empty when the state topic was wiped.
func (t *target) hid() bool { return t.hiddenFrom < t.hiddenTo }

// unseen reports whether a copy was behind the high watermark of a log that looked empty when the state topic was wiped.
func (t *target) unseen(c placed) bool { return t.hiddenFrom <= c.at && c.at < t.hiddenTo }

// living returns the copies that are of the branch that is copied, as far as the ledger says.
func (t *target) living() (cs []placed) {
	for _, c := range t.copies {
		if !t.orphan(c) {
			cs = append(cs, c)
		}
	}
	return cs
}

// holds reports whether the log has a copy.
func (t *target) holds(c placed) bool {
	return c.at >= t.start && slices.ContainsFunc(t.log, func(b stored) bool { return slices.Contains(b.recs, rec{c.at, c.id}) })
}

// produceExpiry is producer.id.expiration.ms.
const produceExpiry = 24 * time.Hour

func refused(e *kerr.Error) error { return &kafka.RefusedError{Err: e, Base: -1} }

// produce is what the leader does with one batch.
func (t *target) produce(raw []byte) (int64, error) {
	switch {
	case t.leaderless:
		return -1, refused(kerr.NotLeaderForPartition)
	case t.refuses > 0:
		t.refuses--
		return -1, refused(kerr.NotLeaderForPartition)
	case t.weak:
		return -1, refused(kerr.NotEnoughReplicas)
	}
	h, err := batch.Parse(raw)
	if err != nil || h.BaseOffset != 0 || !h.Dense() || h.Control() || h.Transactional() || h.PID < 0 || h.BaseSeq < 0 {
		t.w.failf("%s: a broker would refuse the batch %+v: %v", t.lane, h, err)
		return -1, refused(kerr.InvalidRecord)
	}
	first, last := h.BaseSeq, model.Seq(int64(h.BaseSeq)+int64(h.LastOffsetDelta))
	if p := t.known[h.PID]; p != nil {
		for _, a := range p.last {
			if p.epoch == h.Epoch && a.first == first && a.last == last {
				return a.base, nil
			}
		}
		switch {
		case h.Epoch < p.epoch:
			return -1, refused(kerr.InvalidProducerEpoch)
		case h.Epoch > p.epoch && first != 0, h.Epoch == p.epoch && first != following(p.seq):
			return -1, refused(kerr.OutOfOrderSequenceNumber)
		}
	}
	return t.append(h, raw, first, last), nil
}

func following(seq int32) int32 {
	if seq == math.MaxInt32 {
		return 0
	}
	return seq + 1
}

func (t *target) append(h batch.Header, raw []byte, first, last int32) int64 {
	b := stored{raw: slices.Clone(raw)}
	h.BaseOffset = t.end
	binary.BigEndian.PutUint64(b.raw, uint64(t.end))
	b.Header = h
	err := t.w.codecs.Decode(b.raw, func(r batch.Record) error {
		b.recs = append(b.recs, rec{r.Offset, int64(binary.BigEndian.Uint64(r.Value))})
		return nil
	})
	if err != nil {
		t.w.failf("%s: the target got a batch that cannot be decoded: %v", t.lane, err)
	}
	t.put(b)
	t.remember(b.Header, first, last)
	t.w.judgeAppend(t, b)
	return b.BaseOffset
}

func (t *target) put(b stored) {
	t.w.logf("target %d: %d+%d, pid %d, epoch %d, control %v: %v", t.lane.Partition, b.BaseOffset, b.LastOffsetDelta, b.PID, b.Epoch, b.Control(), b.recs)
	t.log = append(t.log, b)
	t.end = b.Next()
}

func (t *target) remember(h batch.Header, first, last int32) {
	p := t.known[h.PID]
	if p == nil || p.epoch != h.Epoch {
		p = &remembered{epoch: h.Epoch}
		t.known[h.PID] = p
	}
	p.last = append(p.last, accepted{first, last, h.BaseOffset})
	p.last = p.last[max(0, len(p.last)-maxInFlight):]
	p.seq, p.ts = last, h.MaxTimestamp
}

// mark writes a control marker.
func (t *target) mark(pid int64, epoch int16) (int64, error) {
	p := t.known[pid]
	switch {
	case t.leaderless:
		return -1, kerr.NotLeaderForPartition
	case t.weak:
		return -1, kerr.NotEnoughReplicas
	case p != nil && epoch < p.epoch:
		return -1, kerr.InvalidProducerEpoch
	}
	if p == nil || p.epoch != epoch {
		p = &remembered{epoch: epoch, seq: -1}
		t.known[pid] = p
	}
	p.ts = t.w.now.UnixMilli()
	b := stored{Header: batch.Header{BaseOffset: t.end, Attrs: txnBit | controlBit, PID: pid, Epoch: epoch, BaseSeq: -1, MaxTimestamp: p.ts}}
	b.seal()
	t.put(b)
	t.taken = t.taken || t.origin < 0
	return b.BaseOffset, nil
}

// stranger is somebody else who writes into the mirror.
func (t *target) stranger(n int64) {
	b := stored{Header: batch.Header{BaseOffset: t.end, LastOffsetDelta: int32(n - 1), PID: -1, Epoch: -1, BaseSeq: -1, MaxTimestamp: t.w.now.UnixMilli()}}
	for i := range n {
		b.recs = append(b.recs, rec{t.end + i, -1})
	}
	b.seal()
	t.put(b)
	t.taken = t.taken || t.origin < 0
}

// forget is the sweep that drops producers whose newest record is too old.
func (t *target) forget() {
	for pid, p := range t.known {
		if t.w.now.UnixMilli()-p.ts >= produceExpiry.Milliseconds() {
			delete(t.known, pid)
		}
	}
}

// deleteTo moves the log's start; what the leader knows of producers stays.
func (t *target) deleteTo(off int64) {
	t.start = max(t.start, min(off, t.hw))
	t.log = slices.DeleteFunc(t.log, func(b stored) bool { return b.Next() <= t.start })
}

// compact thins a batch out. The newest batch of each producer stays.
func (t *target) compact(i int, drop func(rec) bool) {
	b := &t.log[i]
	newest := !slices.ContainsFunc(t.log[i+1:], func(o stored) bool { return o.PID == b.PID && !o.Control() })
	if b.Control() || b.Next() > t.hw {
		return
	}
	if left := b.thin(drop); !left && !newest {
		t.log = slices.Delete(t.log, i, i+1)
	}
}
