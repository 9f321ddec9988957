package replicator

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"lockstep/internal/kafka"
	"lockstep/internal/kafkatest"
	"lockstep/internal/model"
	"lockstep/internal/statelog"
	"lockstep/offsetsync"
	"lockstep/replicator/batch"
	"lockstep/replicator/term"
)

func TestNewEnding_EveryIDThatTheLaneMayStillBeOpenedIn(t *testing.T) {
	t.Parallel()
	first, other, mine := model.Term{N: 1, PID: 7, Epoch: 4}, model.Term{N: 2, PID: 8}, model.Term{N: 3, PID: 9}
	same := model.Term{N: 2, PID: 6} // taken at the same moment as the other one
	known := []model.Term{first, same, other, {N: 2, PID: 8, Epoch: 1}, mine}
	for name, c := range map[string]struct {
		last  model.Term
		known []model.Term
		want  []model.Term
	}{
		"never opened":               {model.Term{}, known, []model.Term{{}, first, same, other}},
		"opened in the oldest":       {first, known, []model.Term{first, {}, same, other}},
		"opened in one of two":       {other, known, []model.Term{other, {}, same}},
		"opened in the newest":       {mine, known, []model.Term{mine}},
		"others are not asked after": {first, nil, []model.Term{first, {}}},
	} {
		got := newEnding(model.Lane{}, kafka.Part{}, offsetsync.LaneState{Opening: offsetsync.Opening{Term: c.last}}, mine, c.known)
		if !slices.Equal(got.under, c.want) {
			t.Errorf("%s: under %+v, want %+v", name, got.under, c.want)
		}
	}
}

// markers is a sealer whose markers stand one behind the other, except those of a producer id that is refused.
type markers struct {
	next    int64
	refused int64
}

func (s *markers) Seal(_ context.Context, t model.Term, targets []term.Target) (map[kafka.Part]term.Outcome, term.Way) {
	out := make(map[kafka.Part]term.Outcome)
	for _, x := range targets {
		o := term.Outcome{Marker: s.next, PID: x.Ends.PID, Way: term.WayDirect, Was: &kafka.Producer{PID: x.Ends.PID}}
		if s.next++; x.Ends.N > 0 && x.Ends.PID == s.refused {
			o.Marker, o.Err = -1, term.ErrOldID
		}
		out[x.Part] = o
	}
	return out, term.WayDirect
}

func TestEndAll_SealedOnlyUnderAllItsIDs(t *testing.T) {
	t.Parallel()
	now, old, older := model.Term{N: 3, PID: 9}, model.Term{N: 2, PID: 8}, model.Term{N: 1, PID: 7}
	one, two := kafka.Part{Topic: "orders"}, kafka.Part{Topic: "orders", Partition: 1}
	es := []ending{
		{target: term.Target{Part: one}, under: []model.Term{old, {}}},
		{target: term.Target{Part: two}, under: []model.Term{old, {}, older}},
	}
	out, way := endAll(t.Context(), &markers{refused: 7}, now, es)
	if o := out[one]; way != term.WayDirect || !o.Sealed() || o.Marker != 2 || o.Was.PID != 8 {
		t.Errorf("%s: %+v, want the last marker, and what was known before the first", way, o)
	}
	if o := out[two]; o.Sealed() {
		t.Errorf("%+v counts as sealed, and a term of producer %d may still write", o, older.PID)
	}
}

// refusedFor fails unless the leader refuses a batch of a term for its epoch.
func refusedFor(t *testing.T, c kafkatest.Target, p kafka.Part, of model.Term) {
	t.Helper()
	codecs, err := batch.NewCodecs(1 << 20)
	if err != nil {
		t.Fatal(err)
	}
	built, err := codecs.Encode([]batch.Record{{Timestamp: time.Now().UnixMilli(), Value: []byte("v")}}, batch.CodecNone, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	batch.Stamp(built[0].Bytes, of.PID, of.Epoch, 0)
	if got := kafkatest.ErrorName(kafkatest.ProduceRaw(t, c, p.Topic, p.Partition, built[0].Bytes).ErrorCode); got != "INVALID_PRODUCER_EPOCH" {
		t.Errorf("a batch of term %d (producer %d) on %s/%d: %s", of.N, of.PID, p.Topic, p.Partition, got)
	}
}

// A coordinator that forgot the link twice leaves terms of three producer ids. A broker believes any id, so two of them are
// made up here.
func TestShut_RefusesTermsOfAllIDs(t *testing.T) {
	t.Parallel()
	c := kafkatest.Shared(t, kafkatest.Kafka4, 1)
	dst, ctx := dialTest(t, "dst", c), t.Context()
	topic, link := kafkatest.Topic(t, c, kafkatest.TopicOptions{Partitions: 2}), kafkatest.TopicName(t)
	log := statelog.New(dst, link, statelog.Options{})
	t.Cleanup(log.Close)
	if err := log.Ensure(ctx); err != nil {
		t.Fatal(err)
	}
	view := offsetsync.NewView(log)
	following := make(chan struct{})
	run, stop := context.WithCancel(ctx)
	go func() { defer close(following); _ = view.Run(run) }()
	t.Cleanup(func() { stop(); <-following })

	made := rand.Int64N(1<<40) + 1<<40
	first, other := model.Term{N: 1, PID: made, Epoch: 3}, model.Term{N: 2, PID: made + 1}
	now, err := term.Take(ctx, dst, link, other, "failover")
	if err != nil {
		t.Fatal(err)
	}
	var lanes []Shutting
	for p := range int32(2) {
		lanes = append(lanes, Shutting{model.Lane{Link: link, Topic: topic, Partition: p}, kafka.Part{Topic: topic, Partition: p}})
	}
	store := offsetsync.NewStore(log, view, "failover")
	for _, x := range []model.Term{first, other, now} {
		if err := store.PutTerm(ctx, x); err != nil {
			t.Fatal(err)
		}
	}
	opening := offsetsync.Opening{Lane: lanes[1].Lane, N: 1, Term: first, Identity: model.Identity{DstTopic: topic}, Origin: model.Cursor{SrcEpoch: -1}}
	if won, err := store.Open(ctx, []offsetsync.Opening{opening}); err != nil || !won[0] { // it reads the state to its end
		t.Fatalf("open: %v, %v", won, err)
	}

	out, err := Shut(ctx, store, view, term.NewSealer(dst, link, term.Options{}), now, lanes, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range lanes {
		if o := out[x.Part]; !o.Sealed() || o.Marker != 2 {
			t.Errorf("%s: %+v, want the third marker", x.Lane, o)
		}
		refusedFor(t, c, x.Part, first)
		refusedFor(t, c, x.Part, other)
		refusedFor(t, c, x.Part, model.Term{N: 2, PID: other.PID, Epoch: 9}) // that somebody got without our knowing
	}
	if err := view.Barrier(ctx); err != nil {
		t.Fatal(err)
	}
	for _, x := range lanes {
		if got := view.Seals(x.Lane); len(got) != 1 || !got[0].Confirmed || got[0].Marker != 2 || got[0].Term != now || got[0].Way != string(term.WayDirect) {
			t.Errorf("%s: the state says %+v", x.Lane, got)
		}
	}
}
