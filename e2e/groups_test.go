package e2e

import (
	"bytes"
	"testing"
	"time"

	"lockstep/api"
	"lockstep/internal/kafkatest"
)

// The main walk through groups: in the middle of a topic of transactions, where every commit marker takes an offset that
// the target does not have, groups stand on the target at the very record where they stand on the source.
func TestGroups_StandWhereTheyStandOnTheSource(t *testing.T) {
	t.Parallel()
	src, dst := pair(t)
	topic := kafkatest.Topic(t, src)
	some := sequel()
	for range 40 {
		kafkatest.Produce(t, src, topic, 0, some(25), kafkatest.ProduceOptions{Txn: kafkatest.Commit})
		kafkatest.Produce(t, src, topic, 0, some(5), kafkatest.ProduceOptions{Txn: kafkatest.Abort})
	}
	middle, end, excluded := groupName("middle"), groupName("end"), groupName("console-consumer")
	commitAt(t, src, middle, topic, 0, 500)
	commitAt(t, src, end, topic, 0, stableEnds(t, src, topic)[topic][0])
	commitAt(t, src, excluded, topic, 0, 3)
	s := newService(t, linkBetween(src, dst, []string{topic})).start()
	s.equal(src, dst, topic)

	g := s.awaitGroupState(middle, "synced", 15*time.Second)
	want := s.translateOne(topic, 0, 500)
	if at := committedAt(t, dst, middle, topic, 0); at != want || want >= 500 || *g.Positions[0].TargetOffset != want {
		t.Errorf("the group stands at %d, want %d: %+v", at, want, g)
	}
	ends := logEnds(t, dst, topic)
	awaitCommitted(t, dst, end, topic, 0, ends[topic][0], 10*time.Second)
	if at := committedAt(t, dst, excluded, topic, 0); at != -1 {
		t.Errorf("a group that is left out stands at %d", at)
	}
	s.command("groups", "show", excluded).want(t, 0).says(t, "excluded", "console-consumer-.*")

	// A change is there within three seconds.
	commitAt(t, src, middle, topic, 0, 777)
	began := time.Now()
	awaitCommitted(t, dst, middle, topic, 0, s.translateOne(topic, 0, 777), 10*time.Second)
	if took := time.Since(began); took > 3*time.Second {
		t.Errorf("a changed position took %v", took)
	}
	onSource, onTarget := nextRead(t, src, middle, topic), nextRead(t, dst, middle, topic)
	if !bytes.Equal(onSource.Value, onTarget.Value) {
		t.Errorf("the next record on the target is %.60q, on the source %.60q", onTarget.Value, onSource.Value)
	}
	s.stop()
}

// translateOne asks the service where a source offset stands on the target.
func (s *service) translateOne(topic string, partition int32, offset int64) int64 {
	s.t.Helper()
	out, err := s.client.Translate(s.t.Context(), s.link(), api.TranslateRequest{Offsets: []api.Position{{Topic: topic, Partition: partition, Offset: offset}}})
	if err != nil || len(out) != 1 || out[0].TargetOffset == nil {
		s.t.Fatalf("translate %s/%d at %d: %+v, %v", topic, partition, offset, out, err)
	}
	return *out[0].TargetOffset
}

// What others do on the target is theirs: a group with members is left alone, one that was moved stays where it was
// moved to, one that was there before keeps its position, until an operator says otherwise. Restarts change none of that.
func TestGroups_WhatOthersDoOnTheTarget(t *testing.T) {
	t.Parallel()
	src, dst := pair(t)
	topic := kafkatest.Topic(t, src)
	kafkatest.Produce(t, src, topic, 0, kafkatest.Records(1000, 1))
	active, moved, before := groupName("active"), groupName("moved"), groupName("before")
	for _, g := range []string{active, moved} {
		commitAt(t, src, g, topic, 0, 100)
	}
	s := newService(t, linkBetween(src, dst, []string{topic})).start()
	s.equal(src, dst, topic)
	commitAt(t, dst, before, topic, 0, 5)
	commitAt(t, src, before, topic, 0, 200)
	for _, g := range []string{active, moved} {
		awaitCommitted(t, dst, g, topic, 0, 100, 15*time.Second)
	}
	s.awaitGroupState(before, "exists_on_target", 10*time.Second)

	cl := member(t, dst, active, topic)
	if fs := cl.PollRecords(t.Context(), 1); fs.Records()[0].Offset != 100 {
		t.Errorf("the group began at %d", fs.Records()[0].Offset)
	}
	commitAt(t, src, active, topic, 0, 150)
	commitAt(t, dst, moved, topic, 0, 300)
	commitAt(t, src, moved, topic, 0, 160)
	s.awaitGroupState(active, "active_on_target", 10*time.Second)
	s.awaitGroupState(moved, "moved_on_target", 10*time.Second)
	s.command("status").want(t, 0).says(t, "GROUPS", moved, "moved_on_target", "lockstep groups accept "+moved)

	s.stop()
	s.start()
	s.awaitGroupState(moved, "moved_on_target", 15*time.Second)
	s.awaitGroupState(before, "exists_on_target", 15*time.Second)
	for g, want := range map[string]int64{active: 100, moved: 300, before: 5} {
		if at := committedAt(t, dst, g, topic, 0); at != want {
			t.Errorf("%s stands at %d, want %d", g, at, want)
		}
	}
	s.command("groups", "accept", active, "--link", s.link(), "--yes").want(t, 3).says(t, "refused", "on the target")
	s.command("groups", "accept", moved, before, "--link", s.link(), "--dry-run").want(t, 0).says(t, "300 -> 160", "5 -> 200")
	if at := committedAt(t, dst, moved, topic, 0); at != 300 {
		t.Errorf("a dry run moved the group to %d", at)
	}
	s.command("groups", "accept", moved, before, "--link", s.link(), "--yes", "--reason", "test").want(t, 0).says(t, "done")
	for g, want := range map[string]int64{moved: 160, before: 200} {
		if at := committedAt(t, dst, g, topic, 0); at != want {
			t.Errorf("%s stands at %d after it was accepted, want %d", g, at, want)
		}
		s.awaitGroupState(g, "synced", 10*time.Second)
	}
	cl.Close()
	commitAt(t, src, moved, topic, 0, 170)
	awaitCommitted(t, dst, moved, topic, 0, 170, 10*time.Second)
	awaitCommitted(t, dst, active, topic, 0, 150, 30*time.Second)
	s.stop()
}
