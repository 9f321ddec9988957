package term

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"sync"
	"time"

	"lockstep/internal/kafka"
	"lockstep/internal/model"
)

// Way is how a link seals partitions. A link keeps the first way that worked: after one real transaction of a producer
// id a direct marker needs the coordinator's epoch, which a partition that forgot the id no longer shows.
type Way string

// The ways.
const (
	WayUnknown     Way = ""            // not decided yet: the next Seal finds out
	WayDirect      Way = "direct"      // WriteTxnMarkers to each leader; needs Alter on the cluster
	WayTransaction Way = "transaction" // an empty aborted transaction; needs the transactional id and Write on the topics
	WayNone        Way = "none"        // neither is allowed: there is no seal on this link
)

// Target is a partition to seal.
type Target struct {
	kafka.Part
	// From is an offset below which the marker cannot stand, such as the lane's stored cursor; 0 when nothing is known.
	// The search begins at the log's end as the leader tells it right before the seal, and at From only where it does
	// not tell.
	From int64
	// Ends is the term that the partition was last written in; the zero Term when that is not known or there is none,
	// which counts as a term of the same producer id as the sealing one.
	Ends model.Term
}

// Outcome is what became of one partition. It is sealed only when Err is nil; then Marker is the offset of the marker
// in the partition's log, so that everything older terms ever appended lies below it, and PID and Epoch are what the
// marker carries.
//
// Err wraps ErrDenied, ErrSuperseded, ErrNoLeader, ErrUnknownPartition, ErrBelowMinISR, ErrNoMarker or ErrOldID where
// an operator or the caller can act, else the broker's error. Every one but ErrSuperseded is worth another Seal later.
type Outcome struct {
	Marker int64
	PID    int64
	Epoch  int16
	Way    Way
	// LeaderEpoch is that of the partition when the marker was appended, as the log says; -1 when it is not sealed.
	LeaderEpoch int32
	// Was is what the leader's DescribeProducers said of the ended producer id before the marker, when it listed it.
	// Afterwards it shows no sequence any more.
	Was *kafka.Producer
	Err error
}

// Sealed reports whether the partition's older terms have ended. The zero Outcome is not sealed.
func (o Outcome) Sealed() bool { return o.Err == nil && o.Way != WayUnknown && o.Marker >= 0 }

// Options are a sealer's settings; the zero value is ready to use.
type Options struct {
	Logger *slog.Logger
	// Way is the way that the link stored from an earlier Seal.
	Way Way
	// Timeout bounds a Seal whose context has no deadline; 30 s when 0.
	Timeout time.Duration
}

const (
	// lastEpoch is the highest epoch. No coordinator gives it to a client, so a marker that carries it ends a producer id
	// on that partition for good.
	lastEpoch = math.MaxInt16

	defaultTimeout = 30 * time.Second
)

// Sealer seals partitions of one link's target. It is safe for concurrent use. Calls run side by side, so that a broker
// that hangs holds back only its own partitions; only transactions come one after the other, since two of one id cannot
// be open.
type Sealer struct {
	dst     *kafka.Cluster
	link    string
	log     *slog.Logger
	timeout time.Duration
	perTxn  int           // partitions of one transaction
	txn     chan struct{} // holds an element while a transaction is open

	mu  sync.Mutex // guards way
	way Way
}

// NewSealer returns a sealer of a link's target. It does no I/O.
func NewSealer(dst *kafka.Cluster, link string, o Options) *Sealer {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Timeout <= 0 {
		o.Timeout = defaultTimeout
	}
	return &Sealer{
		dst: dst, link: link, timeout: o.Timeout, perTxn: partitionsPerTxn,
		log: o.Logger.With("link", link), txn: make(chan struct{}, 1), way: o.Way,
	}
}

// Seal ends, on each partition, every term older than t, and returns one outcome per target together with the way it
// went, which the caller stores with the link and gives back in Options.Way. t must be the term that Take handed out
// last: its epoch is what the markers carry.
//
// A target whose Ends has another producer id than t is sealed directly under that old id with the highest epoch, on
// every link (see the package comment). All others go the link's way: direct markers, confirmed by each partition's
// leader; or, where every leader refused those with CLUSTER_AUTHORIZATION_FAILED, by transaction. On both ways the
// marker's offset is read back from the partition's own log, and a partition whose marker was not seen is not sealed.
// A partition that cannot be sealed does not hold back the others. ctx bounds everything; when it ends, what is not
// proven yet is reported as not sealed.
func (s *Sealer) Seal(ctx context.Context, t model.Term, targets []Target) (map[kafka.Part]Outcome, Way) {
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	jobs := makeJobs(t, targets)
	s.prepare(ctx, jobs)
	own, old := splitJobs(jobs, t.PID)
	s.direct(ctx, old)
	markOldID(old)
	s.sealOwn(ctx, t, own)
	s.readBack(ctx, jobs)
	s.report(jobs)
	return outcomes(jobs), s.Way()
}

// Way returns the way that the link goes, WayUnknown before the first Seal.
func (s *Sealer) Way() Way {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.way
}

// decide takes the answers to direct markers into account and returns the link's way. Direct and transaction stay for
// good: of calls that find out at the same time the first one decides for all.
func (s *Sealer) decide(jobs []*job) Way {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.way == WayUnknown || s.way == WayNone {
		s.way = choose(s.way, jobs)
	}
	return s.way
}

// denyAll notes that neither way is allowed. It may be later: the next Seal tries both again.
func (s *Sealer) denyAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.way = WayNone
}

func (s *Sealer) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, s.timeout)
}

// sealOwn seals partitions of the term's own producer id on the link's way, and chooses it when there is none yet.
// The choice needs clear answers: a leader that does not answer decides nothing.
func (s *Sealer) sealOwn(ctx context.Context, t model.Term, jobs []*job) {
	if s.Way() == WayTransaction {
		s.prepareAgain(ctx, jobs)
		_ = s.byTransaction(ctx, t, jobs) // stands in the jobs
		return
	}
	s.direct(ctx, jobs)
	if s.decide(jobs) != WayTransaction {
		return
	}
	rest := retract(jobs)
	if err := s.byTransaction(ctx, t, rest); errors.Is(err, ErrDenied) {
		s.denyAll()
		neither(rest)
	}
}

// choose returns the way by the answers to direct markers; without any, it stays as it is.
func choose(way Way, jobs []*job) Way {
	for _, j := range jobs {
		switch {
		case j.written:
			return WayDirect
		case j.refused != nil:
			way = WayTransaction
		}
	}
	return way
}

// report logs what was sealed. Each partition that was not is the caller's to tell: it knows for how long.
func (s *Sealer) report(jobs []*job) {
	sealed := len(healthy(jobs))
	for _, j := range jobs {
		if j.err != nil {
			s.log.Debug("partition not sealed", "topic", j.Topic, "partition", j.Partition, "epoch", j.epoch, "error", j.err)
		}
	}
	if sealed > 0 {
		s.log.Info("sealed partitions", "way", s.Way(), "sealed", sealed, "unsealed", len(jobs)-sealed)
	}
}
