package probe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"lockstep/internal/kafka"
	"lockstep/internal/model"
	"lockstep/replicator/batch"
)

// The results of a fact.
const (
	OK       = "ok"
	Failed   = "failed"
	Warning  = "warning"   // it does not hold, and no promise depends on it alone
	NotTried = "not tried" // what it builds upon failed
)

// Fact is one thing that was tried on the target.
type Fact struct {
	Name   string `json:"fact"`
	Result string `json:"result"` // OK, Warning, Failed or NotTried
	Detail string `json:"detail"` // what was seen
	For    string `json:"for"`    // the promise or the operation that needs it; "" for what is only good to know
}

// Report is what became of all facts, and what follows for the promises.
type Report struct {
	Cluster  string    `json:"cluster"`
	Topic    string    `json:"topic"` // the scratch topic; it is deleted again
	Facts    []Fact    `json:"facts"`
	Promises []Promise `json:"promises"`
	// Leftovers are scratch topics of probes that were killed, Removed those of them that have been deleted now.
	Leftovers []string `json:"leftovers,omitempty"`
	Removed   []string `json:"removed,omitempty"`
}

// Options are what a probe needs besides its target; the zero value is usable.
type Options struct {
	Logger   *slog.Logger
	Progress func(what string) // called before each step; nil: nobody watches
}

const (
	stepTimeout    = 30 * time.Second
	cleanupTimeout = 20 * time.Second
)

// Run probes a target. It returns an error when the scratch topic cannot be made or deleted, or when ctx ends; what was
// found until then is in the report.
func Run(ctx context.Context, dst *kafka.Cluster, o Options) (r Report, err error) {
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	if o.Progress == nil {
		o.Progress = func(string) {}
	}
	codecs, err := batch.NewCodecs(1 << 20)
	if err != nil {
		return r, err
	}
	p := &prober{dst: dst, opt: o, codecs: codecs, id: newID(time.Now()), report: Report{Cluster: dst.Name()}, results: make(map[string]string)}
	p.report.Topic = TopicPrefix + p.id
	defer func() { // after an interruption too, and with time of its own
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
		defer cancel()
		o.Progress("deleting " + p.report.Topic)
		err = errors.Join(err, p.deleteTopic(ctx, p.report.Topic))
		r = p.report
	}()
	p.removeLeftovers(ctx)
	o.Progress("making " + p.report.Topic)
	if err := p.makeTopic(ctx); err != nil {
		return r, err
	}
	for _, s := range p.steps() {
		p.try(ctx, s)
		if ctx.Err() != nil {
			return r, fmt.Errorf("probe cluster %s: %w", dst.Name(), context.Cause(ctx))
		}
	}
	p.report.Promises = promises(p.results)
	return r, nil
}

// prober is one probe.
type prober struct {
	dst     *kafka.Cluster
	opt     Options
	codecs  *batch.Codecs
	id      string
	report  Report
	results map[string]string // of facts, by name

	replication int16
	made        bool // the scratch topic
	part        kafka.Part
	leader      int32
	// The lane that the facts are tried with: its present term, the sequence that comes next in it, the log's end, the
	// records that consumers should see and the offset of the last.
	term    model.Term
	seq     int32
	end     int64
	records int
	last    int64
}

// step is one fact and how it is tried. try returns what was seen; its error means that the fact does not hold.
type step struct {
	name, needed string
	after        []string // facts without which it cannot be tried
	soft         bool     // another fact may stand in, or nothing is promised by it
	try          func(ctx context.Context) (string, error)
}

func (p *prober) try(ctx context.Context, s step) {
	f := Fact{Name: s.name, Result: OK, For: s.needed}
	if i := slices.IndexFunc(s.after, func(name string) bool { return p.results[name] != OK }); i >= 0 {
		f.Result, f.Detail = NotTried, "it builds upon: "+s.after[i]
	} else {
		p.opt.Progress(s.name)
		ctx, cancel := context.WithTimeout(ctx, stepTimeout)
		defer cancel()
		p.lookAtEnd(ctx)
		detail, err := s.try(ctx)
		if f.Detail = detail; err != nil {
			f.Result, f.Detail = Failed, err.Error()
		}
		if err != nil && s.soft {
			f.Result = Warning
		}
	}
	p.results[s.name] = f.Result
	p.report.Facts = append(p.report.Facts, f)
}

// lookAtEnd makes a step begin at what the log really holds, whatever the step before left behind.
func (p *prober) lookAtEnd(ctx context.Context) {
	if end, err := p.logEnd(ctx); err == nil {
		p.end = end
	}
}

// The facts, by the names they are shown with.
const (
	factProducer   = "a producer id with an epoch is handed out"
	factFetched    = "a fetched batch is taken with a patched header"
	factHeaders    = "the log keeps producer id, epoch and sequence"
	factRepeat     = "the same batch again is recognised"
	factSkip       = "a sequence that skips ahead is refused"
	factTimes      = "records keep their times"
	factOldTimes   = "records ten years old are taken"
	factStranger   = "an unknown producer starts at any sequence"
	factDescribe   = "DescribeProducers shows the last sequence"
	factEpoch      = "the next epoch starts at 0 and ends the old one"
	factDirect     = "a direct marker ends the old epoch"
	factTxn        = "an aborted transaction ends the old epoch"
	factInvisible  = "markers are invisible to consumers"
	factDelete     = "records can be deleted up to the end"
	factRemembers  = "the producer is known after that"
	factCompacted  = "a compacted topic can be made"
	factSize       = "the largest batch"
	factForgets    = "when producers are forgotten"
	factForgetsTxn = "when transactional ids are forgotten"
)

// What facts are needed for: promises, and what operators do.
const (
	promiseCopy      = "copied once, in order, unchanged"
	promiseTranslate = "offsets translate exactly"
	promiseSeal      = "nothing of an older term after a seal"
	promiseLedger    = "what is missing stands in the ledger"
	forRebuild       = "lanes rebuild"
	forTrimmed       = "recovery of a trimmed log"
)

func (p *prober) steps() []step {
	return []step{
		{factProducer, promiseCopy, nil, false, p.takeProducer},
		{factFetched, promiseCopy, []string{factProducer}, false, p.passThrough},
		{factHeaders, promiseTranslate, []string{factFetched}, false, p.keepsHeaders},
		{factRepeat, promiseCopy, []string{factFetched}, false, p.repeats},
		{factSkip, promiseCopy, []string{factFetched}, false, p.skips},
		{factTimes, promiseCopy, nil, false, p.keepsTimes},
		{factOldTimes, "", []string{factFetched}, true, p.takesOldTimes},
		{factStranger, "", []string{factFetched}, true, p.takesStrangers},
		{factDescribe, forTrimmed, []string{factFetched}, true, p.describesProducers},
		{factEpoch, promiseSeal, []string{factFetched}, false, p.nextEpoch},
		{factDirect, promiseSeal, []string{factEpoch}, true, p.sealsDirectly},
		{factTxn, promiseSeal, []string{factFetched}, true, p.sealsByTransaction},
		{factInvisible, promiseSeal, []string{factFetched}, false, p.hidesMarkers},
		{factDelete, forRebuild, []string{factFetched}, true, p.deletesRecords},
		{factRemembers, "", []string{factDelete}, true, p.remembersProducer},
		{factCompacted, promiseLedger, nil, false, p.takesCompacted},
		{factSize, "", nil, true, p.largestBatch},
		{factForgets, "", nil, true, p.forgetsProducers},
		{factForgetsTxn, "", nil, true, p.forgetsTransactions},
	}
}
