package replicator

import (
	"errors"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"lockstep/internal/model"
)

func TestSender_OneBatchOfALaneInARequest(t *testing.T) {
	t.Parallel()
	m, l, _ := newOpenLane(t)
	s := &sender{m: m, ready: newQueue()}
	feed(t, l, 100, 1, 1, 1, 1, 1)
	first := l.take(s)
	l.settle(first, 10, nil)
	s.ready.push(l) // an answer woke it while the request is being filled
	r := s.gather(l)
	if len(r.batches) != 1 {
		t.Fatalf("request holds %d batches of one partition, a broker refuses more than one", len(r.batches))
	}
	if again, ok := s.ready.pop(); !ok || again != l {
		t.Fatal("the lane does not come up again for its next batch")
	}
}

func TestSender_FillsARequestWithManyLanes(t *testing.T) {
	t.Parallel()
	m := newTestManager(t)
	s := &sender{m: m, ready: newQueue()}
	for p := range int32(sendParts + 10) {
		l := newLane(m, Assignment{Lane: model.Lane{Link: "dr", Topic: "orders", Partition: p}, Identity: model.Identity{DstTopic: "orders"}}, m.now())
		l.begin(1, testTerm, model.Cursor{Src: 100, Dst: 10, SrcEpoch: -1}, m.now())
		feed(t, l, 100, 1)
		s.ready.push(l)
	}
	first, _ := s.ready.pop()
	r := s.gather(first)
	if len(r.batches) != sendParts {
		t.Fatalf("request holds %d partitions, want %d", len(r.batches), sendParts)
	}
	left := 0
	for _, ok := s.ready.pop(); ok; _, ok = s.ready.pop() {
		left++
	}
	if left != 10 {
		t.Fatalf("%d lanes wait for the next request, want 10", left)
	}
	req, ok := s.request(r).(*kmsg.ProduceRequest)
	if !ok || len(req.Topics) != 1 || len(req.Topics[0].Partitions) != sendParts {
		t.Fatalf("request is %+v", req)
	}
}

func TestSender_AnswersFindTheirLanesByIDOrName(t *testing.T) {
	t.Parallel()
	id := model.TopicID{7}
	resp := kmsg.NewPtrProduceResponse()
	for _, topic := range []struct {
		name string
		id   model.TopicID
		base int64
	}{{"orders", model.TopicID{}, 5}, {"", id, 6}} {
		rt := kmsg.NewProduceResponseTopic()
		rt.Topic, rt.TopicID = topic.name, topic.id
		rp := kmsg.NewProduceResponseTopicPartition()
		rp.Partition, rp.BaseOffset = 1, topic.base
		rt.Partitions = append(rt.Partitions, rp)
		resp.Topics = append(resp.Topics, rt)
	}
	answers := collect(resp)
	l := &lane{id: model.Lane{Partition: 1}}
	for usually := range 2 * len(answers) { // wherever it is expected
		l.id.Partition = 1
		l.joinsLocked(model.Identity{DstTopic: "orders", Dst: model.TopicID{1}})
		if a := find(answers, l.dstPart(), usually); a.err != nil || a.base != 5 {
			t.Fatalf("by name: %+v", a)
		}
		l.joinsLocked(model.Identity{DstTopic: "other", Dst: id})
		if a := find(answers, l.dstPart(), usually); a.err != nil || a.base != 6 {
			t.Fatalf("by id: %+v", a)
		}
		l.id.Partition = 2
		if a := find(answers, l.dstPart(), usually); !errors.Is(a.err, errUnanswered) {
			t.Fatalf("found an answer for a partition that was not named: %+v", a)
		}
	}
}
