package replicator

import (
	"sync"
	"sync/atomic"
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
	from    int64 // the position that was asked for: what lies before it in its first batch is not wanted, or deleted
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
	srcFrom  int64 // its records' source offsets: [srcFrom, srcTo)
	srcTo    int64
	srcEnd   int64 // the cursor's Src once this batch has landed
	srcEpoch int32
	maxTS    int64
	form     form
	needPlan int // jumps that must be durable before it may be sent
	buf      *buffer
	fetched  time.Time
}

// drop gives up the bytes: nobody may keep them beyond what the budget counts.
func (o *outgoing) drop() {
	o.raw = nil
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
	jumps    int                // jumps handed out in this opening
	epochs   []model.EpochStart // of all that was looked at; never changed in place
}

// lane is one partition's copy in this process. It is passive: loops call its methods, none of which does I/O.
type lane struct {
	m  *Manager
	id model.Lane
	// topics is ident for those who do not hold mu.
	topics atomic.Pointer[model.Identity]

	mu        sync.Mutex // guards everything below; never held across I/O
	ident     model.Identity
	limits    batch.Limits
	born      bool
	state     model.State
	reason    model.Reason
	detail    string
	since     time.Time
	unsealed  bool      // an older term has to be ended before anything is written
	sealKnown bool      // whether it is was looked up in the state
	fault     time.Time // since when attempts fail; zero while all is well
	why       refusal   // what fails
	atSource  bool      // the fault is on the source's side: a good fetch answer ends it
	attempts  int       // of opening or repairing without success
	gen       uint32    // moves when buffered batches are dropped; older chunks are void

	// What operators want of it.
	offered model.Identity // its topics, as they were offered last; ident is what it works with
	intent  *intent        // what was ordered for its next opening
	leave   *departure     // how it is to end
	returns bool           // it is taken up again as soon as it has ended so
	wanted  bool           // leaders are looked for

	opening   uint64
	began     bool // this process made the opening: what is stored of it is ours to store
	term      model.Term
	entering  bool   // the opener has it, or will
	atOpener  int    // how many groups at the opener it is in just now
	termAbove uint64 // the next opening needs a term above this one; 0: any
	outgrown  int32  // a batch of so many bytes was refused: read the topic's limits before opening; 0: none was
	marker    int64  // offset of the marker that began the term; -1: none
	dstEpoch  int32  // leader epoch up to which the target's log is known to hold what it should
	seeStop   bool   // a batch was refused for its epoch: look for a stop or a newer owner before opening

	// fetch side
	open       bool
	draining   bool
	fetchNext  int64
	fetchEpoch int32
	fetchMax   int32
	ranged     bool      // an answer that the position does not hold is being looked into
	forked     bool      // the source's log took another branch: nothing more of the old one is sent
	srcFaults  int       // fetch errors in a row
	corruptSrc int       // of them, the source's word that its batch is damaged
	heard      time.Time // when a fetch answer last had something for the lane
	told       time.Time // when the source's ends were last told
	behind     time.Time // since when it is known to be behind all the same
	lost       bool      // the fault is that nothing comes
	stableAt   time.Time // when the source's stable end last moved, or had no more behind it
	hanging    bool      // an open transaction holds the stable end, and the lane shows it
	pauseUntil time.Time
	pauseShort bool
	in         []chunk
	held       int64 // bytes of in, out and inflight
	preparing  bool
	at         place
	inherited  []model.EpochStart // for the next opening

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
	brokerErr int   // server errors in a row at corruptAt
	singlyTo  int64 // records below this source offset are sent one by one: the target refused a batch for something in it
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
	strange                     []stretch // target offsets that somebody else took, not looked into yet
	inspecting                  bool
	fetch                       *fetcher
	replica                     int32 // a follower that the source's leader named for this rack; -1: none
}

func newLane(m *Manager, a Assignment, now time.Time) *lane {
	l := &lane{m: m, id: a.Lane, offered: a.Identity, limits: a.Limits, born: a.Born, state: model.StateWaiting,
		since: now, fetchMax: laneFetch, srcStart: -1, srcStable: -1, srcEnd: -1, dstEnd: -1, idleAt: -1, replica: -1, marker: -1}
	l.joinsLocked(a.Identity)
	return l
}

// joinsLocked sets which topics the lane works with. It changes only while nothing of the lane is under way.
func (l *lane) joinsLocked(ident model.Identity) {
	l.ident = ident
	l.topics.Store(&ident)
}

func (l *lane) srcPart() kafka.Part {
	return kafka.Part{Topic: l.id.Topic, ID: l.topics.Load().Src, Partition: l.id.Partition}
}

func (l *lane) dstPart() kafka.Part {
	ident := l.topics.Load()
	return kafka.Part{Topic: ident.DstTopic, ID: ident.Dst, Partition: l.id.Partition}
}

// position says what to fetch next. hold means that the lane is only left out for the moment, so the fetcher should
// come back soon.
func (l *lane) position() (pos kafka.Position, gen uint32, ok, hold bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.entering && !l.stalled() || l.ranged && l.open:
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
	if next <= l.fetchNext {
		c.buf.release() // an answer of a former leader that came late; its epoch does not belong to the present position
		return
	}
	l.heard = l.m.now()
	l.srcFaults, l.corruptSrc = 0, 0
	l.in = append(l.in, c)
	l.held += int64(len(c.raw))
	l.fetchNext, l.fetchEpoch = next, epoch
	l.m.prepareQ.push(l)
}

// observe notes the source's offsets as a fetch answer told them: the source can be read.
func (l *lane) observe(start, stable, end int64, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.heard = now
	l.endsLocked(start, stable, end, now)
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

// stands notes what the target's log holds at an opening.
func (l *lane) stands(marker int64, dstEpoch int32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.marker, l.dstEpoch = marker, dstEpoch
}

// begin starts copying at an opening's origin. A lane that was stopped meanwhile stays so, with a clean end at the origin.
func (l *lane) begin(opening uint64, term model.Term, origin model.Cursor, now time.Time) {
	l.mu.Lock()
	stopped := l.state == model.StateStopped
	l.dropBuffersLocked()
	l.opening, l.term, l.termAbove, l.seeStop, l.entering = opening, term, 0, false, false
	l.began = true
	l.cursor, l.saved, l.savedEnd = origin, origin, false
	l.unsealed = false
	l.unsureTo, l.endedWell = origin.Count, false
	l.at = place{src: origin.Src, planSrc: origin.Src, count: origin.Count, srcEpoch: origin.SrcEpoch, epochs: l.inherited}
	l.inherited = nil
	l.fetchNext, l.fetchEpoch = origin.Src, origin.SrcEpoch
	l.durableJumps, l.landings = 0, nil
	l.proven, l.open, l.verdict, l.ranged, l.forked = false, true, goOn, false, false
	l.heard = now
	l.lastTS = 0
	l.copied.sinceSave = 0
	if stopped {
		l.open, l.endedWell = false, cleanReason(l.reason)
		l.mu.Unlock()
		return
	}
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
	l.fault, l.attempts, l.atSource, l.lost, l.hanging = time.Time{}, 0, false, false, false
	if d := l.leave; d != nil {
		l.setLocked(model.StateDraining, d.reason, d.detail, now)
		return
	}
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
	r, detail = l.unsealedLocked(r, detail)
	l.why = refusal{reason: r, detail: detail}
	l.overdueLocked(now)
}

// overdueLocked shows a fault that has lasted.
func (l *lane) overdueLocked(now time.Time) {
	if !l.fault.IsZero() && now.Sub(l.fault) >= retryingAfter && l.state != model.StateStopped && !l.releasedLocked() {
		l.setLocked(model.StateRetrying, l.why.reason, l.why.detail, now)
	}
}

// overdue looks whether a fault has lasted, or a batch has waited long for its answer.
func (l *lane) overdue(now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fault.IsZero() && len(l.inflight) > 0 && now.Sub(l.sentAt) > retryingAfter && l.throttledLocked(now) == "" {
		l.fault = l.sentAt
		l.why = refusal{reason: model.ReasonLeaderUnavailable, detail: "the target leader does not answer"}
	}
	l.overdueLocked(now)
}

// stalled reports whether the lane has been in trouble for so long that nobody should wait for it.
func (l *lane) stalled() bool { return l.state == model.StateRetrying }

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
	if l.state != model.StateStopped && !l.releasedLocked() && !l.waitsLocked() {
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
	copied, well := l.open, l.endedWell
	l.open = false
	l.answerLocked(l.intent, stopError(r, detail))
	l.setLocked(model.StateStopped, r, detail, l.m.now())
	l.entering = false
	if len(l.inflight) > 0 {
		l.verdict = halt
		return
	}
	l.endLocked() // whoever repairs the lane finds that it is not to go on
	if !copied {
		l.endedWell = l.endedWell && well // how it ended was decided before, or is what was to be found out
	}
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
