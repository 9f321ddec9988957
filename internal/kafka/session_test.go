package kafka

import (
	"cmp"
	"errors"
	"io"
	"math"
	"slices"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"lockstep/internal/model"
)

var (
	partA = Part{Topic: "a", ID: model.TopicID{1}}
	partB = Part{Topic: "b", ID: model.TopicID{2}, Partition: 3}
	partC = Part{Topic: "b", ID: model.TopicID{2}, Partition: 4}
)

func at(off int64) Position {
	return Position{Offset: off, LeaderEpoch: 5, LastEpoch: -1, MaxBytes: 1 << 20}
}

// asked is a fetch request reduced to what the session decides.
type asked struct {
	ID, Epoch int32
	Set       []setPart
	Forgotten []Part
}

type setPart struct {
	Part
	Position
}

func readAsked(r kmsg.Request) asked {
	var req *kmsg.FetchRequest
	switch r := r.(type) {
	case *kmsg.FetchRequest:
		req = r
	case Pinned:
		req = r.Request.(*kmsg.FetchRequest)
	}
	out := asked{ID: req.SessionID, Epoch: req.SessionEpoch}
	for _, t := range req.Topics {
		for _, p := range t.Partitions {
			out.Set = append(out.Set, setPart{Part{t.Topic, t.TopicID, p.Partition},
				Position{p.FetchOffset, p.CurrentLeaderEpoch, p.LastFetchedEpoch, p.PartitionMaxBytes}})
		}
	}
	for _, t := range req.ForgottenTopics {
		for _, p := range t.Partitions {
			out.Forgotten = append(out.Forgotten, Part{t.Topic, t.TopicID, p})
		}
	}
	slices.SortFunc(out.Set, func(x, y setPart) int { return cmp.Compare(x.String(), y.String()) })
	slices.SortFunc(out.Forgotten, func(x, y Part) int { return cmp.Compare(x.String(), y.String()) })
	return out
}

func next(s *Session) asked { return readAsked(s.Next(time.Second, 1<<24, true, "")) }

func checkAsked(t *testing.T, what string, got, want asked) {
	t.Helper()
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// answer builds an answer of a session with the given partitions.
func answer(id int32, parts ...kmsg.FetchResponseTopic) *kmsg.FetchResponse {
	resp := kmsg.NewPtrFetchResponse()
	resp.Version, resp.SessionID, resp.Topics = 16, id, parts
	return resp
}

func partAnswer(p Part, change func(*kmsg.FetchResponseTopicPartition)) kmsg.FetchResponseTopic {
	t := kmsg.NewFetchResponseTopic()
	t.TopicID = p.ID
	rp := kmsg.NewFetchResponseTopicPartition()
	rp.Partition = p.Partition
	change(&rp)
	t.Partitions = append(t.Partitions, rp)
	return t
}

func data(p *kmsg.FetchResponseTopicPartition) { p.RecordBatches = []byte("batch") }
func news(p *kmsg.FetchResponseTopicPartition) { p.HighWatermark = 9 }

func failed(code *kerr.Error) func(*kmsg.FetchResponseTopicPartition) {
	return func(p *kmsg.FetchResponseTopicPartition) { p.ErrorCode = code.Code }
}

func TestSession_SendsOnlyWhatChanged(t *testing.T) {
	t.Parallel()
	s := NewSession()
	s.Set(partA, at(0))
	s.Set(partB, at(10))
	checkAsked(t, "first", next(s), asked{0, 0, []setPart{{partA, at(0)}, {partB, at(10)}}, nil})
	if err := s.Answer(answer(77), nil); err != nil {
		t.Fatal(err)
	}
	s.Set(partA, at(0)) // no change
	checkAsked(t, "idle", next(s), asked{77, 1, nil, nil})
	_ = s.Answer(answer(77, partAnswer(partA, news)), nil)
	s.Set(partB, at(12))
	s.Set(partC, at(1))
	checkAsked(t, "moved and added", next(s), asked{77, 2, []setPart{{partB, at(12)}, {partC, at(1)}}, nil})
	_ = s.Answer(answer(77), nil)
	s.Forget(partB)
	checkAsked(t, "forgotten", next(s), asked{77, 3, nil, []Part{partB}})
	_ = s.Answer(answer(77), nil)
	s.Set(partB, at(12))
	checkAsked(t, "back", next(s), asked{77, 4, []setPart{{partB, at(12)}}, nil})
}

func TestSession_ForgottenAndSetAgainBeforeNextIsNoForgetting(t *testing.T) {
	t.Parallel()
	s := NewSession()
	s.Set(partA, at(0))
	next(s)
	_ = s.Answer(answer(5), nil)
	s.Forget(partA)
	s.Set(partA, at(3))
	checkAsked(t, "next", next(s), asked{5, 1, []setPart{{partA, at(3)}}, nil})
}

func TestSession_AnsweredPartitionsAreLeftOutUntilTheyAreSet(t *testing.T) {
	t.Parallel()
	diverging := func(p *kmsg.FetchResponseTopicPartition) { p.DivergingEpoch.Epoch, p.DivergingEpoch.EndOffset = 0, 3 }
	elsewhere := func(p *kmsg.FetchResponseTopicPartition) { p.PreferredReadReplica = 2 }
	for name, change := range map[string]func(*kmsg.FetchResponseTopicPartition){
		"data": data, "error": failed(kerr.OffsetOutOfRange), "diverging": diverging, "other replica": elsewhere,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := NewSession()
			s.Set(partA, at(0))
			s.Set(partB, at(0))
			next(s)
			_ = s.Answer(answer(5, partAnswer(partA, change)), nil)
			if s.Has(partA) || !s.Has(partB) || s.Len() != 1 {
				t.Errorf("Has(A) %v, Has(B) %v, Len %d", s.Has(partA), s.Has(partB), s.Len())
			}
			checkAsked(t, "without A", next(s), asked{5, 1, nil, []Part{partA}})
			_ = s.Answer(answer(5), nil)
			s.Set(partA, at(4))
			checkAsked(t, "with A", next(s), asked{5, 2, []setPart{{partA, at(4)}}, nil})
		})
	}
}

func TestSession_SetDuringTheRequestOutlivesItsAnswer(t *testing.T) {
	t.Parallel()
	s := NewSession()
	s.Set(partA, at(0))
	next(s)
	s.Set(partA, at(100)) // the lane was opened anew while the request was under way
	_ = s.Answer(answer(5, partAnswer(partA, data)), nil)
	if !s.Has(partA) {
		t.Fatal("the new position is lost")
	}
	checkAsked(t, "next", next(s), asked{5, 1, []setPart{{partA, at(100)}}, nil})
}

func TestSession_LostAnswerStartsAgainAndFreesTheOldSession(t *testing.T) {
	t.Parallel()
	s := NewSession()
	s.Set(partA, at(0))
	s.Set(partB, at(0))
	next(s)
	_ = s.Answer(answer(77), nil)
	s.Forget(partB)
	next(s)
	if err := s.Answer(nil, io.ErrUnexpectedEOF); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("error %v", err)
	}
	full := asked{77, 0, []setPart{{partA, at(0)}}, nil}
	checkAsked(t, "after the loss", next(s), full)
	_ = s.Answer(nil, io.EOF)
	checkAsked(t, "after two losses", next(s), full)
	_ = s.Answer(answer(78), nil)
	checkAsked(t, "new session", next(s), asked{78, 1, nil, nil})
}

func TestSession_SessionErrors(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		code *kerr.Error
		id   int32
	}{
		{kerr.FetchSessionIDNotFound, 0}, {kerr.InvalidFetchSessionEpoch, 77}, {kerr.FetchSessionTopicIDError, 77},
		{kerr.InconsistentTopicID, 77}, {kerr.UnknownServerError, 77},
	} {
		t.Run(tc.code.Message, func(t *testing.T) {
			t.Parallel()
			s := NewSession()
			s.Set(partA, at(0))
			next(s)
			_ = s.Answer(answer(77), nil)
			next(s)
			bad := answer(0)
			bad.ErrorCode = tc.code.Code
			err := s.Answer(bad, nil)
			if !errors.Is(err, tc.code) {
				t.Errorf("error %v", err)
			}
			checkAsked(t, "repair", next(s), asked{tc.id, 0, []setPart{{partA, at(0)}}, nil})
		})
	}
}

func TestSession_InconsistentTopicIDOfAPartitionStartsAgain(t *testing.T) {
	t.Parallel()
	s := NewSession()
	s.Set(partA, at(0))
	s.Set(partB, at(0))
	next(s)
	_ = s.Answer(answer(77), nil)
	next(s)
	_ = s.Answer(answer(77, partAnswer(partA, failed(kerr.InconsistentTopicID))), nil)
	checkAsked(t, "next", next(s), asked{77, 0, []setPart{{partB, at(0)}}, nil})
}

func TestSession_NoPlaceMeansFullRequests(t *testing.T) {
	t.Parallel()
	s := NewSession()
	s.Set(partA, at(0))
	s.Set(partB, at(0))
	for range 3 {
		checkAsked(t, "full", next(s), asked{0, 0, []setPart{{partA, at(0)}, {partB, at(0)}}, nil})
		_ = s.Answer(answer(0, partAnswer(partA, data)), nil)
		if s.Has(partA) {
			t.Fatal("data without Set is asked for again")
		}
		s.Set(partA, at(0))
	}
	next(s)
	_ = s.Answer(answer(9), nil)
	checkAsked(t, "a place at last", next(s), asked{9, 1, nil, nil})
	_ = s.Answer(answer(0), nil)
	checkAsked(t, "the broker gave our place away", next(s), asked{0, 0, []setPart{{partA, at(0)}, {partB, at(0)}}, nil})
}

func TestSession_AnswerOfAnotherSession(t *testing.T) {
	t.Parallel()
	s := NewSession()
	s.Set(partA, at(0))
	next(s)
	_ = s.Answer(answer(9), nil)
	next(s)
	_ = s.Answer(answer(10), nil)
	checkAsked(t, "next", next(s), asked{9, 0, []setPart{{partA, at(0)}}, nil})
}

func TestSession_EpochWraps(t *testing.T) {
	t.Parallel()
	s := NewSession()
	s.Set(partA, at(0))
	next(s)
	_ = s.Answer(answer(9), nil)
	s.epoch = math.MaxInt32
	next(s)
	_ = s.Answer(answer(9), nil)
	checkAsked(t, "next", next(s), asked{9, 1, nil, nil})
}

func TestSession_TopicCreatedAgainTakesANewSession(t *testing.T) {
	t.Parallel()
	s := NewSession()
	s.Set(partA, at(100))
	next(s)
	_ = s.Answer(answer(9), nil)
	again := Part{Topic: "a", ID: model.TopicID{42}}
	s.Set(again, at(0))
	checkAsked(t, "next", next(s), asked{9, 0, []setPart{{again, at(0)}}, nil})
	_ = s.Answer(answer(10, partAnswer(partA, data)), nil) // of the old topic: not asked for
	if !s.Has(again) {
		t.Error("an answer for the old topic took the new one out")
	}
}

func TestSession_NamesWhereAnIDIsMissing(t *testing.T) {
	t.Parallel()
	s := NewSession()
	s.Set(partA, at(0))
	if r := s.Next(0, 1, false, ""); r.MaxVersion() < FetchByID {
		t.Errorf("with ids: MaxVersion %d", r.MaxVersion())
	}
	_ = s.Answer(answer(9), nil)
	nameless := Part{Topic: "old"}
	s.Set(nameless, at(0))
	r := s.Next(0, 1, false, "")
	if r.MaxVersion() != FetchByID-1 {
		t.Errorf("without an id: MaxVersion %d", r.MaxVersion())
	}
	checkAsked(t, "new session by names", readAsked(r), asked{9, 0, []setPart{{partA, at(0)}, {nameless, at(0)}}, nil})
	byName := answer(10, partAnswer(Part{}, data))
	byName.Version, byName.Topics[0].Topic = 12, "old"
	_ = s.Answer(byName, nil)
	if s.Has(nameless) || !s.Has(partA) {
		t.Error("the answer by name was not understood")
	}
	checkAsked(t, "by ids again", next(s), asked{10, 0, []setPart{{partA, at(0)}}, nil})
}

func TestSession_PartsFindsByIDOrName(t *testing.T) {
	t.Parallel()
	s := NewSession()
	s.Set(partA, at(0))
	s.Set(partB, at(0))
	next(s)
	stranger := Part{Topic: "x", ID: model.TopicID{99}}
	resp := answer(9, partAnswer(partB, data), partAnswer(partA, news), partAnswer(stranger, data), partAnswer(partC, data))
	_ = s.Answer(resp, nil)
	var got []Part
	for p := range s.Parts(resp) { // after Answer took the answered ones out
		got = append(got, p)
	}
	if diff := gocmp.Diff([]Part{partB, partA}, got); diff != "" {
		t.Error(diff)
	}
	for range s.Parts(resp) {
		break // may be left early
	}
}

func TestSession_EndFreesThePlace(t *testing.T) {
	t.Parallel()
	s := NewSession()
	if s.End() != nil {
		t.Error("there is nothing to end")
	}
	s.Set(partA, at(0))
	next(s)
	_ = s.Answer(answer(9), nil)
	checkAsked(t, "end", readAsked(s.End()), asked{9, -1, nil, nil})
	checkAsked(t, "and on", next(s), asked{0, 0, []setPart{{partA, at(0)}}, nil})
}

func TestSession_NextCarriesItsArguments(t *testing.T) {
	t.Parallel()
	s := NewSession()
	r := s.Next(1500*time.Millisecond, 4096, true, "r1").(*kmsg.FetchRequest)
	if r.MaxWaitMillis != 1500 || r.MinBytes != 1 || r.MaxBytes != 4096 || r.IsolationLevel != 1 || r.Rack != "r1" || r.ReplicaID != -1 {
		t.Errorf("request %+v", r)
	}
	if r := s.Next(0, 1, false, "").(*kmsg.FetchRequest); r.IsolationLevel != 0 {
		t.Errorf("isolation %d", r.IsolationLevel)
	}
}
