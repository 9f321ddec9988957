package kafka

import (
	"fmt"
	"iter"
	"math"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"lockstep/internal/model"
)

// Position is where a partition is fetched from.
type Position struct {
	Offset      int64
	LeaderEpoch int32 // the leader's present epoch, -1 when not known: a leader of another epoch refuses
	LastEpoch   int32 // epoch of the last record before Offset, -1 when not known: the leader then names the point of divergence
	MaxBytes    int32
}

// Epochs of a fetch session (KIP-227).
const (
	sessionFirst int32 = 0  // a full request; asks for a new session, and ends the one whose id it carries
	sessionNone  int32 = -1 // a full request without a session; with an id it ends that one
)

// Session builds the fetch requests to one broker and keeps the broker's incremental session with it: after the first
// request only what changed is sent, and only partitions with news are answered. It does no input or output and is
// used by one goroutine, in turns: Next, then Answer with what came of it. Set, Forget and Has may be called at any
// time between, also before the Answer to the request under way.
//
// A partition is asked for until it answers. With data, it is left out until it is Set again, because a session keeps
// the old offset and would send the same bytes; with an error, a diverging epoch or another replica to read from, it
// is left out too, because a session repeats those without any wait.
//
// A request whose answer is lost may or may not have been counted by the broker. So the one after it is a full one
// that names the old session: the broker frees that and makes a new one.
type Session struct {
	want map[partKey]entry        // what is to be asked for
	have map[partKey]entry        // what the broker's session holds once it has seen the newest request
	name map[model.TopicID]string // of every topic that was ever Set: answers name ids only

	id     int32 // 0 while there is no session
	epoch  int32 // of the next request; sessionFirst makes it a full one
	pinned bool  // the session names topics by name
}

type entry struct {
	part Part
	pos  Position
}

// NewSession returns a session without partitions.
func NewSession() *Session {
	return &Session{want: map[partKey]entry{}, have: map[partKey]entry{}, name: map[model.TopicID]string{}}
}

// Set makes the following requests ask for a partition at a position. The same topic with another id replaces the
// old one.
func (s *Session) Set(p Part, pos Position) {
	if old, ok := s.have[p.key()]; ok && old.part.ID != p.ID {
		s.epoch = sessionFirst // one broker session must not hold two topics of the same name
	}
	if !p.ID.IsZero() {
		s.name[p.ID] = p.Topic
	}
	s.want[p.key()] = entry{p, pos}
}

// Forget leaves a partition out of the following requests.
func (s *Session) Forget(p Part) { delete(s.want, p.key()) }

// Has reports whether the next request asks for a partition. It is false after the partition has answered.
func (s *Session) Has(p Part) bool {
	_, ok := s.want[p.key()]
	return ok
}

// Len returns the number of partitions that the next request asks for. A broker answers a request for none at once.
func (s *Session) Len() int { return len(s.want) }

// Next returns the next request: the broker waits up to maxWait for at least one byte, sends at most maxBytes in all
// (more only if the first batch is larger), and shows only committed data when committed is set. A rack other than ""
// lets the broker name another replica to read from instead of sending data.
func (s *Session) Next(maxWait time.Duration, maxBytes int32, committed bool, rack string) kmsg.Request {
	if pin := s.needsNames(); pin != s.pinned {
		s.pinned, s.epoch = pin, sessionFirst // a session knows topics either by id or by name
	}
	req := s.request()
	req.MaxWaitMillis, req.MinBytes, req.MaxBytes, req.Rack = int32(maxWait.Milliseconds()), 1, maxBytes, rack
	if committed {
		req.IsolationLevel = 1
	}
	if s.epoch == sessionFirst {
		clear(s.have)
	} else {
		req.ForgottenTopics = s.forget()
	}
	req.Topics = s.changed()
	return s.wrap(req)
}

func (s *Session) request() *kmsg.FetchRequest {
	req := kmsg.NewPtrFetchRequest()
	req.ReplicaID, req.SessionID, req.SessionEpoch = -1, s.id, s.epoch
	return req
}

func (s *Session) wrap(req *kmsg.FetchRequest) kmsg.Request {
	if s.pinned {
		return Pinned{req, FetchByID - 1}
	}
	return req
}

func (s *Session) needsNames() bool {
	for _, e := range s.want {
		if e.part.ID.IsZero() {
			return true
		}
	}
	return false
}

// changed moves what is wanted into what the broker has, and returns the difference. The order is Go's random one, so
// that without a session no partition is always the last to get its share of the bytes.
func (s *Session) changed() []kmsg.FetchRequestTopic {
	topics := map[string]*kmsg.FetchRequestTopic{}
	for key, e := range s.want {
		if s.have[key] == e {
			continue
		}
		s.have[key] = e
		t := topics[e.part.Topic]
		if t == nil {
			t = &kmsg.FetchRequestTopic{Topic: e.part.Topic, TopicID: e.part.ID}
			topics[e.part.Topic] = t
		}
		t.Partitions = append(t.Partitions, e.request())
	}
	out := make([]kmsg.FetchRequestTopic, 0, len(topics))
	for _, t := range topics {
		out = append(out, *t)
	}
	return out
}

func (e entry) request() kmsg.FetchRequestTopicPartition {
	p := kmsg.NewFetchRequestTopicPartition()
	p.Partition, p.FetchOffset, p.PartitionMaxBytes = e.part.Partition, e.pos.Offset, e.pos.MaxBytes
	p.CurrentLeaderEpoch, p.LastFetchedEpoch = e.pos.LeaderEpoch, e.pos.LastEpoch
	return p
}

// forget takes out of what the broker has what is not wanted any more. A partition is never forgotten and set in one
// request: brokers forget last.
func (s *Session) forget() []kmsg.FetchRequestForgottenTopic {
	topics := map[string]*kmsg.FetchRequestForgottenTopic{}
	for key, e := range s.have {
		if _, ok := s.want[key]; ok {
			continue
		}
		delete(s.have, key)
		t := topics[e.part.Topic]
		if t == nil {
			t = &kmsg.FetchRequestForgottenTopic{Topic: e.part.Topic, TopicID: e.part.ID}
			topics[e.part.Topic] = t
		}
		t.Partitions = append(t.Partitions, e.part.Partition)
	}
	out := make([]kmsg.FetchRequestForgottenTopic, 0, len(topics))
	for _, t := range topics {
		out = append(out, *t)
	}
	return out
}

// Answer takes what came of the newest request: its answer, or why there is none. The error is that reason, or the
// session error of the answer, which then holds no partitions; Next repairs both, so the caller only has to go on.
func (s *Session) Answer(resp *kmsg.FetchResponse, err error) error {
	if err != nil {
		s.epoch = sessionFirst
		return fmt.Errorf("fetch: %w", err)
	}
	if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
		s.epoch = sessionFirst
		if resp.ErrorCode == kerr.FetchSessionIDNotFound.Code {
			s.id = 0
		}
		return fmt.Errorf("fetch: %w", err)
	}
	s.advance(resp.SessionID)
	for part, p := range s.Parts(resp) {
		s.settle(part, p)
	}
	return nil
}

// advance moves the session on after an answer without error. Id 0 says that the broker has no place for a session,
// or has just given ours away; then every request is a full one, and asks for a session again.
func (s *Session) advance(id int32) {
	full := s.epoch == sessionFirst
	switch {
	case id == 0:
		s.id, s.epoch = 0, sessionFirst
	case full:
		s.id, s.epoch = id, 1
	case id != s.id:
		s.epoch = sessionFirst // not our session: never guess
	case s.epoch == math.MaxInt32:
		s.epoch = 1
	default:
		s.epoch++
	}
}

// settle leaves a partition out that has answered, unless it was Set to another position meanwhile.
func (s *Session) settle(part Part, p *kmsg.FetchResponseTopicPartition) {
	if p.ErrorCode == kerr.InconsistentTopicID.Code {
		s.epoch = sessionFirst // the broker's session holds an id that its log does not have
	}
	key := part.key()
	if Answered(p) && s.want[key] == s.have[key] {
		delete(s.want, key)
	}
}

// Answered reports whether a partition of an answer carries something to act on: data, an error, the point of
// divergence, or another replica to read from. Otherwise it only tells new offsets of the log's ends.
func Answered(p *kmsg.FetchResponseTopicPartition) bool {
	return len(p.RecordBatches) > 0 || p.ErrorCode != 0 || p.PreferredReadReplica >= 0 || Diverged(p)
}

// Diverged reports whether a partition's answer says that the leader's log took another branch before the asked offset.
func Diverged(p *kmsg.FetchResponseTopicPartition) bool {
	return p.DivergingEpoch.EndOffset >= 0
}

// Parts goes through the partitions of the answer to the newest request, found by id or name as the answer's version
// has it; partitions that were not asked for are left out. It is to be used before the following Next.
func (s *Session) Parts(resp *kmsg.FetchResponse) iter.Seq2[Part, *kmsg.FetchResponseTopicPartition] {
	return func(yield func(Part, *kmsg.FetchResponseTopicPartition) bool) {
		for i := range resp.Topics {
			t := &resp.Topics[i]
			name := t.Topic
			if resp.Version >= FetchByID {
				name = s.name[t.TopicID]
			}
			for j := range t.Partitions {
				e, ok := s.have[partKey{name, t.Partitions[j].Partition}]
				if !ok || resp.Version >= FetchByID && e.part.ID != t.TopicID {
					continue
				}
				if !yield(e.part, &t.Partitions[j]) {
					return
				}
			}
		}
	}
}

// End returns the request that ends the broker's session and so frees its place, nil when there is none. Its answer
// means nothing.
func (s *Session) End() kmsg.Request {
	if s.id == 0 {
		return nil
	}
	req := s.request()
	req.SessionEpoch = sessionNone
	s.id, s.epoch = 0, sessionFirst
	return s.wrap(req)
}
