package replicator

import (
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"lockstep/internal/kafka"
	"lockstep/internal/model"
	"lockstep/replicator/batch"
)

// truth is what really happened to one source record.
type truth struct {
	lane      model.Lane
	off       int64
	id        int64
	committed bool
	readable  bool // it was committed once; the marker may have been lost since
	compacted bool // the cleaner took it before or after it was copied
	deleted   bool // retention did
	cut       bool // the source lost it in an unclean election
	lost      bool // it did once, and may have found it again in another one
	landed    []int64
}

// source is a partition of the source cluster.
type source struct {
	w      *world
	lane   model.Lane
	part   kafka.Part
	log    []stored
	start  int64
	end    int64
	epoch  int32
	epochs []epochStart
	// branched says that the log lost its end once.
	branched bool

	open   map[int64]int64 // transactions: producer → first offset
	aborts []abort
	aside  *replica // another replica, which the newest unclean election left behind
}

// replica is one replica's log.
type replica struct {
	log       []stored
	start     int64
	end       int64
	epochs    []epochStart
	open      map[int64]int64
	aborts    []abort
	committed map[*truth]bool // the records of its branch
}

func (s *source) replica() *replica {
	r := &replica{slices.Clone(s.log), s.start, s.end, slices.Clone(s.epochs), maps.Clone(s.open), slices.Clone(s.aborts), make(map[*truth]bool)}
	for _, tr := range s.w.truths {
		if tr.lane == s.lane && !tr.cut {
			r.committed[tr] = tr.committed
		}
	}
	return r
}

type epochStart struct {
	epoch int32
	off   int64
}

type abort struct{ pid, first, end int64 }

// stable is the last stable offset.
func (s *source) stable() int64 {
	off := s.end
	for _, first := range s.open {
		off = min(off, first)
	}
	return off
}

// append writes n records; of a transaction unless pid is -1.
func (s *source) append(pid int64, n int) {
	b := stored{Header: batch.Header{BaseOffset: s.end, LeaderEpoch: s.epoch, LastOffsetDelta: int32(n - 1), PID: pid, BaseSeq: -1,
		MaxTimestamp: s.w.recordTime()}}
	if pid >= 0 {
		b.Attrs = txnBit
		if _, ok := s.open[pid]; !ok {
			s.open[pid] = s.end
		}
	}
	for i := range int64(n) {
		id := int64(len(s.w.truths))
		s.w.truths = append(s.w.truths, &truth{lane: s.lane, off: s.end + i, id: id, committed: pid < 0, readable: pid < 0})
		b.recs = append(b.recs, rec{s.end + i, id})
	}
	s.put(b)
}

func (s *source) put(b stored) {
	b.seal()
	s.w.logf("source %d: %d+%d of leader epoch %d, pid %d: %v", s.lane.Partition, b.BaseOffset, b.LastOffsetDelta, s.epoch, b.PID, b.recs)
	if n := len(s.epochs); n == 0 || s.epochs[n-1].epoch < s.epoch {
		s.epochs = append(s.epochs, epochStart{s.epoch, b.BaseOffset})
	}
	s.log = append(s.log, b)
	s.end = b.Next()
}

// finish ends a transaction by its marker.
func (s *source) finish(pid int64, commit bool) {
	first, ok := s.open[pid]
	if !ok {
		return
	}
	b := stored{Header: batch.Header{BaseOffset: s.end, LeaderEpoch: s.epoch, Attrs: txnBit | controlBit, PID: pid, BaseSeq: -1, MaxTimestamp: s.w.now.UnixMilli()}}
	if commit {
		b.recs = []rec{}
	} else {
		s.aborts = append(s.aborts, abort{pid, first, s.end})
	}
	for i := range s.log {
		if o := &s.log[i]; commit && o.PID == pid && o.BaseOffset >= first {
			for _, r := range o.recs {
				s.w.truths[r.id].committed, s.w.truths[r.id].readable = true, true
			}
		}
	}
	delete(s.open, pid)
	s.put(b)
}

// compact thins a batch below the stable offset out; one without records is removed.
func (s *source) compact(i int, drop func(rec) bool) {
	b := &s.log[i]
	if b.Control() || b.Next() > s.stable() {
		return
	}
	left := b.thin(func(r rec) bool {
		if !drop(r) {
			return false
		}
		s.w.truths[r.id].compacted = true
		return true
	})
	if !left {
		s.log = slices.Delete(s.log, i, i+1)
	}
}

// retain moves the log's start.
func (s *source) retain(off int64) {
	s.start = max(s.start, min(off, s.stable()))
	s.log = slices.DeleteFunc(s.log, func(b stored) bool {
		for _, r := range b.recs {
			if r.off < s.start && b.Next() > s.start {
				s.w.truths[r.id].deleted = true // its batch is still there; readers begin behind it
			}
		}
		if b.Next() > s.start {
			return false
		}
		for _, r := range b.recs {
			s.w.truths[r.id].deleted = true
		}
		return true
	})
}

// elect is a new leader's term: it begins where the log ends.
func (s *source) elect() {
	s.epoch++
	s.epochs = slices.DeleteFunc(s.epochs, func(e epochStart) bool { return e.off >= s.end }) // one without records
	s.epochs = append(s.epochs, epochStart{s.epoch, s.end})
}

// truncate loses the log's end from an offset on, as an unclean election does, and goes on in a newer epoch.
func (s *source) truncate(off int64) {
	s.aside = s.replica()
	s.log = slices.DeleteFunc(s.log, func(b stored) bool {
		if b.Next() <= off {
			return false
		}
		s.end = min(s.end, b.BaseOffset)
		return true
	})
	s.end = max(s.end, s.start)
	for _, tr := range s.w.truths {
		if tr.lane == s.lane && tr.off >= s.end { // compacted ones, too
			tr.cut, tr.lost = true, true
		}
	}
	s.branched = true
	s.w.logf("source %d: truncated to %d", s.lane.Partition, s.end)
	s.elect()
	s.aborts = slices.DeleteFunc(s.aborts, func(a abort) bool { return a.end >= s.end })
	s.open = map[int64]int64{} // a transaction whose marker was lost is open again
	for _, b := range s.log {
		if _, ok := s.open[b.PID]; b.Control() {
			delete(s.open, b.PID)
		} else if b.Transactional() && !ok {
			s.open[b.PID] = b.BaseOffset
		}
	}
	for _, b := range s.log {
		if first, ok := s.open[b.PID]; ok && b.BaseOffset >= first {
			for _, r := range b.recs {
				s.w.truths[r.id].committed = false
			}
		}
	}
}

// swap lets the other replica lead, in another unclean election: with what it has, in a newer epoch.
func (s *source) swap() {
	r, start := s.aside, s.start
	if r == nil || start > r.end {
		return
	}
	for _, first := range r.open {
		if first < start {
			return
		}
	}
	s.aside = s.replica()
	s.log, s.start, s.end, s.epochs, s.open, s.aborts = r.log, r.start, r.end, r.epochs, r.open, r.aborts
	for _, tr := range s.w.truths {
		if tr.lane == s.lane {
			committed, has := r.committed[tr]
			tr.cut, tr.lost, tr.committed = !has, tr.lost || !has, committed
		}
	}
	s.retain(start)
	s.branched = true
	s.elect()
	s.w.logf("source %d: another replica leads, its log is %d to %d", s.lane.Partition, s.start, s.end)
}

// holds reports whether the log has a record.
func (s *source) holds(r rec) bool {
	return r.off >= s.start && slices.ContainsFunc(s.log, func(b stored) bool { return slices.Contains(b.recs, r) })
}

// endOf answers OffsetForLeaderEpoch: the newest epoch that is not above the asked one, and where it ends.
func (s *source) endOf(epoch int32) (int32, int64) {
	for i := len(s.epochs) - 1; i >= 0; i-- {
		if s.epochs[i].epoch > epoch {
			continue
		}
		if i+1 < len(s.epochs) {
			return s.epochs[i].epoch, s.epochs[i+1].off
		}
		return s.epochs[i].epoch, s.end
	}
	if len(s.epochs) > 0 {
		return epoch, s.epochs[0].off // older than all that is known
	}
	return -1, -1
}

// fetch answers a consumer that reads committed data.
func (s *source) fetch(pos kafka.Position, most int) *kmsg.FetchResponseTopicPartition {
	p := kmsg.NewFetchResponseTopicPartition()
	p.Partition, p.HighWatermark, p.LogStartOffset, p.LastStableOffset, p.PreferredReadReplica = s.part.Partition, s.end, s.start, s.stable(), -1
	if pos.Offset < s.start || pos.Offset > s.end {
		p.ErrorCode = kerr.OffsetOutOfRange.Code
		return &p
	}
	if pos.LastEpoch >= 0 {
		if e, end := s.endOf(pos.LastEpoch); e >= 0 && (e < pos.LastEpoch || end < pos.Offset) {
			p.DivergingEpoch.Epoch, p.DivergingEpoch.EndOffset = e, end
			return &p
		}
	}
	p.RecordBatches = served(s.log, pos.Offset, s.stable(), most)
	for _, a := range s.aborts {
		if a.end >= pos.Offset && a.first < s.stable() {
			t := kmsg.NewFetchResponseTopicPartitionAbortedTransaction()
			t.ProducerID, t.FirstOffset = a.pid, a.first
			p.AbortedTransactions = append(p.AbortedTransactions, t)
		}
	}
	return &p
}
