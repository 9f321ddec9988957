package kafka

import (
	"io"
	"maps"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"

	"lockstep/internal/model"
)

// modelBroker keeps fetch sessions as KIP-227 says a broker does.
type modelBroker struct {
	sessions map[int32]*modelSession
	lastID   int32
	full     bool // no place for another session
}

type modelSession struct {
	epoch int32 // the next one to be accepted
	parts map[partKey]Position
}

// serve answers a request, and returns what it would fetch.
func (b *modelBroker) serve(a asked) (*kmsg.FetchResponse, map[partKey]Position) {
	if a.Epoch == sessionFirst || a.Epoch == sessionNone {
		delete(b.sessions, a.ID)
		parts := map[partKey]Position{}
		apply(parts, a)
		if b.full || a.Epoch == sessionNone {
			return answer(0), parts
		}
		b.lastID++
		b.sessions[b.lastID] = &modelSession{epoch: 1, parts: parts}
		return answer(b.lastID), parts
	}
	s, ok := b.sessions[a.ID]
	if !ok {
		return refusal(kerr.FetchSessionIDNotFound), nil
	}
	if s.epoch != a.Epoch {
		return refusal(kerr.InvalidFetchSessionEpoch), nil
	}
	s.epoch++
	apply(s.parts, a)
	return answer(a.ID), s.parts
}

// apply adds first and forgets last, as brokers do.
func apply(parts map[partKey]Position, a asked) {
	for _, p := range a.Set {
		parts[p.key()] = p.Position
	}
	for _, p := range a.Forgotten {
		delete(parts, p.key())
	}
}

func refusal(e *kerr.Error) *kmsg.FetchResponse {
	resp := answer(0)
	resp.ErrorCode = e.Code
	return resp
}

// TestSession_AgreesWithTheBroker: whatever is set, forgotten, lost and evicted, each request that the broker accepts
// makes it fetch exactly what is wanted, and it refuses none but those whose session it gave away itself.
func TestSession_AgreesWithTheBroker(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := NewSession()
		b := &modelBroker{sessions: map[int32]*modelSession{}}
		parts := make([]Part, 6)
		for i := range parts {
			parts[i] = Part{Topic: string(rune('a' + i%3)), ID: model.TopicID{byte(i%3) + 1}, Partition: int32(i)}
		}
		evicted := false
		part := rapid.SampledFrom(parts)
		t.Repeat(map[string]func(*rapid.T){
			"set":    func(t *rapid.T) { s.Set(part.Draw(t, "part"), at(rapid.Int64Range(0, 3).Draw(t, "offset"))) },
			"forget": func(t *rapid.T) { s.Forget(part.Draw(t, "part")) },
			"evict":  func(t *rapid.T) { clear(b.sessions); evicted = true },
			"fill":   func(t *rapid.T) { b.full = rapid.Bool().Draw(t, "full") },
			"poll": func(t *rapid.T) {
				want := map[partKey]Position{}
				for k, e := range s.want {
					want[k] = e.pos
				}
				req := readAsked(s.Next(time.Second, 1, false, ""))
				fate := rapid.SampledFrom([]string{"answered", "lost before", "lost after"}).Draw(t, "fate")
				if fate == "lost before" {
					_ = s.Answer(nil, io.EOF)
					return
				}
				resp, got := b.serve(req)
				if resp.ErrorCode != 0 && !(evicted && resp.ErrorCode == kerr.FetchSessionIDNotFound.Code) {
					t.Fatalf("request %+v was refused: %v", req, kerr.ErrorForCode(resp.ErrorCode))
				}
				if resp.ErrorCode == 0 {
					evicted = false
					if diff := gocmp.Diff(want, maps.Clone(got)); diff != "" {
						t.Fatalf("request %+v makes the broker fetch something else (-want +got):\n%s", req, diff)
					}
				}
				if fate == "lost after" {
					_ = s.Answer(nil, io.EOF)
					return
				}
				answerSome(t, resp, got, parts)
				_ = s.Answer(resp, nil)
			},
		})
	})
}

// answerSome gives some of the fetched partitions data or an error.
func answerSome(t *rapid.T, resp *kmsg.FetchResponse, fetched map[partKey]Position, parts []Part) {
	for _, p := range parts {
		if _, ok := fetched[p.key()]; !ok {
			continue
		}
		switch rapid.IntRange(0, 3).Draw(t, "what "+p.String()) {
		case 0:
			resp.Topics = append(resp.Topics, partAnswer(p, data))
		case 1:
			resp.Topics = append(resp.Topics, partAnswer(p, failed(kerr.NotLeaderForPartition)))
		}
	}
}
