package replicator

import (
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"lockstep/internal/kafka"
	"lockstep/internal/model"
	"lockstep/replicator/batch"
)

const (
	// laneBuffer is how many bytes of fetched and unsettled batches a lane holds before it is left out of fetches.
	laneBuffer = 4 << 20
	// laneFetch is what one fetch brings of one lane. Larger is not faster, and costs memory.
	laneFetch = 512 << 10
	// maxInFlight is how many batches of one producer a broker can tell apart from repetitions.
	maxInFlight = 5
)

// Assignment is a lane that this process is to copy.
type Assignment struct {
	Lane     model.Lane
	Identity model.Identity
	Limits   batch.Limits
	Born     bool // the topic is younger than the link: it is copied from its beginning whatever `start` says
}

// verdict says what has to happen to a lane once nothing of it is unanswered any more. Higher ones win.
type verdict int

const (
	goOn    verdict = iota
	mending         // the opener reads the target's headers
	repair          // read the target's headers, then send the same bytes again in the same term
	reopen          // begin a new opening in a new term
	fenced          // a newer term or owner stands on the target: look at the state, then reopen or stop
	halt            // an operator has to act
)

// chunk is one partition's share of a fetch answer.
type chunk struct {
	gen     uint32
	from    int64 // the asked offset: what its first batch holds below is not wanted
	raw     []byte
	aborted []kmsg.FetchResponseTopicPartitionAbortedTransaction
	buf     *buffer
	at      time.Time // of the answer
}

// outgoing is one numbered batch. It keeps its bytes until it is settled, so that it can be sent again unchanged.
type outgoing struct {
	lane     *lane
	raw      []byte
	count    int64 // records of the term before this batch
	n        int64
	srcEnd   int64 // the cursor's Src once this batch has landed
	srcEpoch int32
	maxTS    int64
	form     form
	needPlan int // jumps that must be durable before it may be sent
	buf      *buffer
	fetched  time.Time
}

func (o *outgoing) drop() {
	if o.buf != nil {
		o.buf.release()
		o.buf = nil
	}
}

// place is where the preparation of a lane stands: it runs ahead of the cursor.
type place struct {
	src      int64 // next source offset to look at
	planSrc  int64 // source offset that the plan expects for the next record
	count    int64 // number of the next record
	srcEpoch int32
	jumps    int // jumps handed out in this opening
}

// lane is one partition's copy in this process. It is passive: loops call its methods, none of which does I/O.
type lane struct {
	m  *Manager
	id model.Lane

	mu       sync.Mutex // guards everything below; never held across I/O
	ident    model.Identity
	limits   batch.Limits
	born     bool
	state    model.State
	reason   model.Reason
	detail   string
	since    time.Time
	fault    time.Time // since when attempts fail; zero while all is well
	why      refusal   // what fails
	atSource bool      // the fault is on the source's side: a good fetch answer ends it
	attempts int       // of opening or repairing without success
	gen      uint32    // moves when buffered batches are dropped; older chunks are void

	opening   uint64
	term      model.Term
	entering  bool   // the opener has it, or will
	termAbove uint64 // the next opening needs a term above this one; 0: any
	outgrown  int32  // a batch of so many bytes was refused: read the topic's limits before opening; 0: none was
	seeStop   bool   // a batch was refused for its epoch: look for a stop or a newer owner before opening

	// fetch side
	open       bool
	draining   bool
	fetchNext  int64
	fetchEpoch int32
	fetchMax   int32
	ranged     bool // an out-of-range answer is being looked into
	pauseUntil time.Time
	pauseShort bool
	in         []chunk
	held       int64 // bytes of in, out and inflight
	preparing  bool
	at         place

	// send side
	out       []*outgoing
	inflight  []*outgoing
	failed    []*outgoing // answered out of turn after a failure, in order of sending
	verdict   verdict
	refusal   *refusal // behind what is prepared stands something that cannot be sent
	proven    bool
	seqFault  int // sequence errors in a row
	corrupt   int // checksum errors in a row at corruptAt
	corruptAt int64
	unsureTo  int64 // records below this count were sent without a clear answer, and may still land
	endedWell bool  // stopped, and the cursor is exact
	lastTS    int64
	sentAt    time.Time
	via       *sender

	// plan
	pendingJumps []model.Jump
	durableJumps int
	planning     int // plan writes under way

	// landing
	cursor   model.Cursor
	landings []model.Landing // not stored yet
	saved    model.Cursor
	savedEnd bool // the saved cursor is marked as a clean end
	copied   struct{ records, bytes, sinceSave int64 }
	forms    [formCount]int64

	srcStart, srcStable, srcEnd int64
	dstStart, dstEnd            int64
	idleAt                      int64 // the position at which a whole poll brought nothing
	points                      lagPoints
	foreignSeen                 bool
	fetch                       *fetcher
	replica                     int32 // a follower that the source's leader named for this rack; -1: none
}

func newLane(m *Manager, a Assignment, now time.Time) *lane {
	return &lane{m: m, id: a.Lane, ident: a.Identity, limits: a.Limits, born: a.Born, state: model.StateWaiting,
		since: now, fetchMax: laneFetch, srcStart: -1, srcStable: -1, srcEnd: -1, dstEnd: -1, idleAt: -1, replica: -1}
}

func (l *lane) srcPart() kafka.Part {
	return kafka.Part{Topic: l.id.Topic, ID: l.ident.Src, Partition: l.id.Partition}
}

func (l *lane) dstPart() kafka.Part {
	return kafka.Part{Topic: l.ident.DstTopic, ID: l.ident.Dst, Partition: l.id.Partition}
}

// position says what to fetch next. hold means that the lane is only left out for the moment, so the fetcher should
// come back soon.
func (l *lane) position() (pos kafka.Position, gen uint32, ok, hold bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.entering && !l.stalled() || l.ranged:
		return pos, 0, false, true
	case l.m.now().Before(l.pauseUntil):
		return pos, 0, false, l.pauseShort
	case !l.open || l.draining || l.refusal != nil || l.verdict > repair:
		return pos, 0, false, false
	case l.held >= laneBuffer:
		return pos, 0, false, !l.stalled()
	}
	return kafka.Position{Offset: l.fetchNext, LeaderEpoch: -1, LastEpoch: l.fetchEpoch, MaxBytes: l.fetchMax}, l.gen, true, false
}

// accept takes a fetch answer's share and moves the fetch position behind its last whole batch. The chunk holds a
// reference to its buffer.
func (l *lane) accept(c chunk) {
	next, epoch, found := lastOffset(c.raw)
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.gen != l.gen || !l.open {
		c.buf.release()
		return
	}
	if !found {
		c.buf.release()
		l.fetchMax = min(l.fetchMax*2, 1<<29) // the batch did not fit into the answer
		l.idleAt = -1
		return
	}
	l.fetchMax = laneFetch
	l.in = append(l.in, c)
	l.held += int64(len(c.raw))
	l.fetchNext = max(l.fetchNext, next)
	l.fetchEpoch = epoch
	l.m.prepareQ.push(l)
}

// observe notes the source's offsets as a fetch answer told them.
func (l *lane) observe(start, stable, end int64, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.srcStart, l.srcEnd = start, end
	if stable >= 0 {
		l.srcStable = stable
	} else {
		l.srcStable = end
	}
	l.points.add(l.readable(), now)
	if l.atSource && l.open && l.verdict == goOn {
		l.healthyLocked(now)
	}
}

// readable is the source offset up to which the link's isolation level lets it read.
func (l *lane) readable() int64 {
	if l.m.opt.ReadUncommitted {
		return l.srcEnd
	}
	return l.srcStable
}

// idle notes that a poll brought nothing at all while the lane stood at off: the offsets between off and the readable
// end hold no records.
func (l *lane) idle(off int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fetchNext == off {
		l.idleAt = off
	}
}

// reached reports whether the lane has nothing left to copy below end.
func (l *lane) reached(end int64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.open || l.verdict != goOn {
		return false
	}
	quiet := len(l.in) == 0 && !l.preparing && len(l.out) == 0 && len(l.inflight) == 0
	return l.cursor.Src >= end || quiet && l.idleAt == l.fetchNext && l.readable() >= end
}

// dropBuffersLocked gives up what was fetched and not sent; the lane will fetch it again. Nothing may be unanswered.
func (l *lane) dropBuffersLocked() {
	l.gen++
	for _, c := range l.in {
		c.buf.release()
	}
	for _, o := range l.out {
		o.drop()
	}
	for _, o := range l.failed {
		o.drop()
	}
	l.in, l.out, l.failed, l.pendingJumps, l.refusal = nil, nil, nil, nil, nil
	l.held, l.idleAt = 0, -1
}

// begin starts copying at an opening's origin.
func (l *lane) begin(opening uint64, term model.Term, origin model.Cursor, now time.Time) {
	l.mu.Lock()
	l.dropBuffersLocked()
	l.opening, l.term, l.termAbove, l.seeStop, l.entering = opening, term, 0, false, false
	l.cursor, l.saved, l.savedEnd = origin, origin, false
	l.unsureTo, l.endedWell = origin.Count, false
	l.at = place{src: origin.Src, planSrc: origin.Src, count: origin.Count, srcEpoch: origin.SrcEpoch}
	l.fetchNext, l.fetchEpoch = origin.Src, origin.SrcEpoch
	l.durableJumps, l.landings = 0, nil
	l.proven, l.open, l.verdict, l.ranged = false, true, goOn, false
	l.lastTS = 0
	l.copied.sinceSave = 0
	l.healthyLocked(now)
	l.mu.Unlock()
	l.m.place(l)
}

// leaving reports whether the lane is not to be opened any more.
func (l *lane) leaving() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.draining || l.state == model.StateStopped
}

// healthyLocked ends a fault: the lane copies.
func (l *lane) healthyLocked(now time.Time) {
	l.fault, l.attempts, l.atSource = time.Time{}, 0, false
	l.setLocked(model.StateCopying, model.ReasonNone, "", now)
}

// setLocked changes the state and logs the change, once.
func (l *lane) setLocked(s model.State, r model.Reason, detail string, now time.Time) {
	if l.state == s && (l.reason == r || s == model.StateRetrying) {
		l.reason, l.detail = r, detail // what fails may change from one attempt to the next: that is not news
		return
	}
	from := l.state
	l.state, l.reason, l.detail, l.since = s, r, detail, now
	l.m.logState(l, from)
}

// troubleLocked notes a fault that should pass by itself; it shows as retrying once it has lasted ten seconds.
func (l *lane) troubleLocked(r model.Reason, detail string, now time.Time) {
	if l.fault.IsZero() {
		l.fault = now
	}
	l.why = refusal{reason: r, detail: detail}
	l.overdueLocked(now)
}

// overdueLocked shows a fault that has lasted.
func (l *lane) overdueLocked(now time.Time) {
	if !l.fault.IsZero() && now.Sub(l.fault) >= retryingAfter && l.state != model.StateStopped {
		l.setLocked(model.StateRetrying, l.why.reason, l.why.detail, now)
	}
}

// overdue looks whether a fault has lasted, or a batch has waited long for its answer.
func (l *lane) overdue(now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fault.IsZero() && len(l.inflight) > 0 && now.Sub(l.sentAt) > retryingAfter {
		l.fault = l.sentAt
		l.why = refusal{reason: model.ReasonLeaderUnavailable, detail: "the target leader does not answer"}
	}
	l.overdueLocked(now)
}

// stalled reports whether the lane has been in trouble for so long that nobody should wait for it.
func (l *lane) stalled() bool { return l.state == model.StateRetrying }

// pause leaves the lane out of fetches for d; short means that others should not wait long meanwhile.
func (l *lane) pause(d time.Duration, short bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pauseUntil, l.pauseShort = l.m.now().Add(d), short
}

// retryingAfter is how long a fault lasts before the lane is shown as retrying.
const retryingAfter = 10 * time.Second

// sourceTrouble notes a fault that keeps the lane from reading. One on the target's side is not covered up by it.
func (l *lane) sourceTrouble(r model.Reason, detail string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.open || !l.fault.IsZero() && !l.atSource {
		return
	}
	l.atSource = true
	l.troubleLocked(r, detail, l.m.now())
}

func (l *lane) trouble(r model.Reason, detail string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.state != model.StateStopped {
		l.troubleLocked(r, detail, l.m.now())
	}
}

// stop ends the lane until an operator acts. Batches that were sent stay unanswered no longer than their answers
// take; what else it holds is given up.
func (l *lane) stop(r model.Reason, detail string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stopLocked(r, detail)
}

func (l *lane) stopLocked(r model.Reason, detail string) {
	l.open = false
	l.setLocked(model.StateStopped, r, detail, l.m.now())
	l.entering = false
	if len(l.inflight) > 0 {
		l.verdict = halt
		return
	}
	l.endLocked() // whoever repairs the lane finds that it is not to go on
}

// lastOffset walks the batches of a fetch answer and returns the offset behind the last whole one and its leader
// epoch.
func lastOffset(raw []byte) (next int64, epoch int32, found bool) {
	epoch = -1
	for h := range batch.Split(raw) {
		next, epoch, found = h.Next(), h.LeaderEpoch, true
	}
	return next, epoch, found
}
