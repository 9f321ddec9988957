package replicator

import (
	"context"
	"fmt"

	"lockstep/internal/model"
	"lockstep/replicator/batch"
)

// refusal is why a lane cannot go on behind what it has prepared.
type refusal struct {
	reason model.Reason
	detail string
	final  bool // it was tried again often enough
}

// runPreparer checks, shapes and numbers what was fetched, one lane at a time. Several run side by side, so that one
// lane's expensive batch delays no other.
func (m *Manager) runPreparer(ctx context.Context) {
	for {
		l, ok := m.prepareQ.wait(ctx)
		if !ok {
			return
		}
		for l.prepareNext() {
			if ctx.Err() != nil {
				return
			}
		}
	}
}

// prepareNext works on the lane's oldest chunk. It returns false when there is none, or another worker has the lane.
func (l *lane) prepareNext() bool {
	l.mu.Lock()
	if l.preparing || len(l.in) == 0 || l.refusal != nil || l.verdict > repair || l.draining {
		l.mu.Unlock()
		return false
	}
	c := l.in[0]
	l.in[0] = chunk{} // or its bytes, a whole fetch answer, would be kept for as long as the lane is idle
	l.in = l.in[1:]
	l.preparing = true
	w := &shaper{lane: l, term: l.term, at: l.at, limits: l.m.limitsNow(l.limits), codecs: l.m.codecs, chunk: c, singlyTo: l.singlyTo}
	l.mu.Unlock()

	w.shape()

	l.mu.Lock()
	defer l.mu.Unlock()
	l.preparing = false
	l.preparedLocked(w)
	c.buf.release()
	return true
}

// preparedLocked takes over what a worker made of a chunk, unless the lane dropped its buffers meanwhile.
func (l *lane) preparedLocked(w *shaper) {
	if w.chunk.gen != l.gen {
		for _, o := range w.out {
			o.drop()
		}
		return
	}
	l.held -= int64(len(w.chunk.raw))
	for _, o := range w.out {
		l.held += int64(len(o.raw))
	}
	l.out = append(l.out, w.out...)
	l.at, l.refusal = w.at, w.refusal
	if len(w.jumps) > 0 {
		l.pendingJumps = append(l.pendingJumps, w.jumps...)
		l.m.planQ(l).push(l)
	}
	l.advanceLocked()
	l.m.wakeSender(l)
	l.turnLocked()
}

// advanceLocked moves the cursor, or what the cursor will become, over source offsets that hold nothing to copy.
func (l *lane) advanceLocked() {
	var last *outgoing
	for _, os := range [][]*outgoing{l.out, l.inflight, l.failed} {
		if len(os) > 0 {
			last = os[len(os)-1]
			break
		}
	}
	if last != nil {
		last.srcEnd, last.srcEpoch = max(last.srcEnd, l.at.src), l.at.srcEpoch
		return
	}
	l.cursor.Src, l.cursor.SrcEpoch = max(l.cursor.Src, l.at.src), l.at.srcEpoch
}

// shaper turns one chunk into numbered batches and plan entries. It touches no shared state.
type shaper struct {
	lane   *lane
	term   model.Term
	limits batch.Limits
	codecs *batch.Codecs
	chunk  chunk
	// singlyTo is the source offset below which each record gets a batch of its own.
	singlyTo int64

	at      place
	out     []*outgoing
	jumps   []model.Jump
	refusal *refusal
	merging merger
}

func (w *shaper) shape() {
	aborted := batch.NewAborted(w.chunk.aborted)
	w.at.src = max(w.at.src, w.chunk.from)
	var fault error
	for h, b := range batch.SplitErr(w.chunk.raw, &fault) {
		keep := aborted.Keep(h, b)
		if h.Next() <= w.at.src {
			continue
		}
		if keep {
			w.shapeBatch(h, b)
		}
		if w.refusal != nil {
			return
		}
		w.at.epochs = model.AppendEpoch(w.at.epochs, h.LeaderEpoch, max(h.BaseOffset, w.at.src))
		w.at.src, w.at.srcEpoch = h.Next(), h.LeaderEpoch
	}
	w.flushMerge()
	if fault != nil && w.refusal == nil {
		w.refuse(model.ReasonCorrupt, fmt.Sprintf("from source offset %d on, and where the damage ends is not known: %v", w.at.src, fault))
	}
}

// shapeBatch chooses the form: merge for small old ones, pass when nothing in the batch has to change, else rebuild.
func (w *shaper) shapeBatch(h batch.Header, b []byte) {
	singly := h.BaseOffset < w.singlyTo
	if !singly && w.mergeable(h, len(b)) {
		w.merge(h, b)
		return
	}
	if w.flushMerge(); w.refusal != nil {
		return
	}
	if !singly && h.Passable(w.at.src) && w.limits.Admit(h) {
		w.emit(b, []model.Run{{Src: h.BaseOffset, N: int64(h.Count)}}, h, h.MaxTimestamp, formPass)
		return
	}
	w.rebuild(h, b)
}

// rebuild decodes a batch, leaves out what was copied before, and encodes the rest as dense create-time batches.
func (w *shaper) rebuild(h batch.Header, b []byte) {
	rs, err := w.codecs.AppendRecords(nil, b, w.at.src)
	if err != nil {
		w.undecodable(h, err)
		return
	}
	if h.BaseOffset >= w.singlyTo {
		w.encode(rs, h, formRebuild)
		return
	}
	for i := range rs {
		if w.refusal == nil {
			w.encode(rs[i:i+1], h, formRebuild)
		}
	}
}

func (w *shaper) undecodable(h batch.Header, err error) {
	w.refuse(model.ReasonCorrupt, fmt.Sprintf("source offsets %d to %d: %v", h.BaseOffset, h.Next()-1, err))
}

// encode makes batches of records, up to the first that the target would refuse.
func (w *shaper) encode(rs []batch.Record, h batch.Header, f form) {
	good, err := batch.CheckRecords(rs, w.limits)
	if len(good) > 0 {
		w.encodeGood(good, h, f)
	}
	if err != nil && w.refusal == nil {
		w.refuse(refusalReason(err), err.Error())
	}
}

// encodeGood makes batches in the codec of h, as many as the target's limit asks for.
func (w *shaper) encodeGood(rs []batch.Record, h batch.Header, f form) {
	built, err := w.codecs.Encode(rs, h.Codec(), w.limits.MaxBytes)
	if err != nil {
		w.undecodable(h, err)
		return
	}
	for _, part := range built {
		if w.refusal == nil {
			w.emitBuilt(h, part, f)
		}
	}
}

func (w *shaper) emitBuilt(h batch.Header, part batch.Built, f form) {
	if part.TooLarge {
		w.refuse(model.ReasonTooLarge, fmt.Sprintf("record at source offset %d takes %d bytes, the target accepts %d",
			part.Runs[0].Src, len(part.Bytes), w.limits.MaxBytes))
		return
	}
	w.emit(part.Bytes, part.Runs, h, part.MaxTimestamp, f)
}

// emit numbers a batch and notes where its records' source offsets jump.
func (w *shaper) emit(raw []byte, runs []model.Run, h batch.Header, maxTS int64, f form) {
	batch.Stamp(raw, w.term.PID, w.term.Epoch, model.Seq(w.at.count))
	if err := batch.Check(raw, w.limits); err != nil {
		w.refuse(refusalReason(err), fmt.Sprintf("source offset %d: %v", runs[0].Src, err))
		return
	}
	o := &outgoing{lane: w.lane, raw: raw, count: w.at.count, srcEpoch: h.LeaderEpoch, maxTS: maxTS, form: f, fetched: w.chunk.at,
		srcFrom: runs[0].Src}
	if f == formPass {
		o.buf = w.chunk.buf.hold() // raw points into the fetch answer
	} else {
		o.buf = newBuffer(w.lane.m.budget, int64(len(raw)))
	}
	for _, r := range runs {
		if r.Src != w.at.planSrc {
			w.jumps = append(w.jumps, model.Jump{Count: w.at.count, Src: r.Src})
			w.at.jumps++
		}
		w.at.count += r.N
		w.at.planSrc = r.Src + r.N
		o.n += r.N
	}
	o.srcTo, o.srcEnd, o.needPlan = w.at.planSrc, w.at.planSrc, w.at.jumps
	w.out = append(w.out, o)
}

func (w *shaper) refuse(r model.Reason, detail string) {
	w.refusal = &refusal{reason: r, detail: detail}
}

// limitsNow completes a topic's limits with the present time, which time-stamp bounds count from.
func (m *Manager) limitsNow(l batch.Limits) batch.Limits {
	l.Now = m.now().UnixMilli()
	return l
}
