package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"lockstep/internal/kafkatest"
)

// stance is where a group stands on the source, and what has to come of it on the target, by partition.
type stance struct {
	src, dst map[int32]int64
}

// groupLog is a source topic as some application left it, and the groups that have read in it.
type groupLog struct {
	name       string
	before     string // in front of the topic's name
	partitions int32
	write      func(l *groupLog)
	stances    map[string]stance // by the last part of the group's name
	// moves are where groups go later, without anything new in the log.
	moves map[string]stance

	t     *testing.T
	src   *kafkatest.Cluster
	topic string
}

func (l *groupLog) put(partition int32, records []*kgo.Record, how ...kafkatest.ProduceOptions) {
	kafkatest.Produce(l.t, l.src, l.topic, partition, records, how...)
}

func one(src, dst int64) stance { return stance{map[int32]int64{0: src}, map[int32]int64{0: dst}} }

// groupLogs are the logs in which offsets translate in an uncommon way, or went wrong in other products.
func groupLogs() []*groupLog {
	some := sequel()
	committed := kafkatest.ProduceOptions{Txn: kafkatest.Commit}
	return []*groupLog{
		{name: "marker in the middle", write: func(l *groupLog) {
			l.put(0, some(10), committed) // 0–9, the marker is 10
			l.put(0, some(10))            // 11–20
		}, stances: map[string]stance{"end": one(21, 20), "behind the marker": one(11, 10), "at the marker": one(10, 10), "start": one(0, 0)}},
		{name: "commit marker last", write: func(l *groupLog) { l.put(0, some(5), committed) },
			stances: map[string]stance{"done": one(6, 5)}},
		{name: "abort marker last", write: func(l *groupLog) {
			l.put(0, some(5))
			l.put(0, some(3), kafkatest.ProduceOptions{Txn: kafkatest.Abort})
		}, stances: map[string]stance{"done": one(9, 5), "in what was aborted": one(6, 5)}},
		{name: "three markers last", write: func(l *groupLog) {
			var open []*txn
			for range 3 {
				x := beginTxn(l.t, l.src)
				x.put(l.topic, 0, some(2))
				open = append(open, x)
			}
			for _, x := range open {
				x.end(true)
			}
		}, stances: map[string]stance{"done": one(9, 6), "between the markers": one(8, 6)}},
		{name: "emptied by retention", partitions: 2, write: func(l *groupLog) {
			l.put(0, some(100))
			deleteBefore(l.t, l.src, l.topic, 0, 100)
		}, stances: map[string]stance{"done": {map[int32]int64{0: 100, 1: 0}, map[int32]int64{0: 0, 1: 0}}}},
		{name: "six partitions", partitions: 6, write: func(l *groupLog) {
			for p, n := range []int{0, 1, 7, 100, 101, 5000} {
				if n > 0 {
					l.put(int32(p), some(n))
				}
			}
		}, stances: map[string]stance{"done": {map[int32]int64{0: 0, 1: 1, 2: 7, 3: 100, 4: 101, 5: 5000}, map[int32]int64{0: 0, 1: 1, 2: 7, 3: 100, 4: 101, 5: 5000}}}},
		{name: "equal times", write: func(l *groupLog) {
			rs := some(15)
			for i := 10; i < 15; i++ {
				rs[i].Timestamp = rs[10].Timestamp
			}
			l.put(0, rs)
		}, stances: map[string]stance{"amid": one(12, 12), "end": one(15, 15)}},
		{name: "twenty and idle", write: func(l *groupLog) { l.put(0, some(20)) },
			stances: map[string]stance{"done": one(20, 20)}},
		{name: "long", write: func(l *groupLog) { l.put(0, some(100_000), kafkatest.ProduceOptions{BatchRecords: 5000}) },
			stances: map[string]stance{"near the start": one(1000, 1000), "in the middle": one(50_000, 50_000), "near the end": one(99_000, 99_000)},
			moves:   map[string]stance{"near the start": one(1060, 1060), "new, long behind": one(50, 50)}},
		{name: "named like a prefix", before: "src.", write: func(l *groupLog) { l.put(0, some(9)) },
			stances: map[string]stance{"amid": one(4, 4)}},
	}
}

// Groups that were idle all the time get to the target as soon as there is something to translate: each to the very
// record, whatever the log looks like. After a restart they still move, without anything new in the logs.
func TestGroups_StandAtTheSameRecord(t *testing.T) {
	t.Parallel()
	src, dst := pair(t)
	prefix := kafkatest.TopicName(t) + "-"
	logs := groupLogs()
	var topics []string
	for _, l := range logs {
		l.prepare(t, src, prefix)
		topics = append(topics, l.topic)
		for group, at := range l.stances {
			stand(t, src, l.group(prefix, group), l.lanes(at.src))
		}
	}
	kafkatest.Topic(t, dst, kafkatest.TopicOptions{Name: logs[5].topic, Partitions: 6}) // made by hand beforehand, and empty
	s := newService(t, groupsBetween(src, dst, prefix, topics)).start()
	for _, l := range logs {
		for group, at := range l.stances {
			s.arrives(src, dst, l, l.group(prefix, group), at)
		}
	}
	s.translatesAll(logs, prefix)
	s.stop()
	s.start()
	for _, l := range logs {
		for group, at := range l.moves {
			stand(t, src, l.group(prefix, group), l.lanes(at.src))
		}
	}
	for _, l := range logs {
		for group, at := range l.moves {
			s.arrives(src, dst, l, l.group(prefix, group), at)
		}
		for group, at := range l.stances {
			if _, moved := l.moves[group]; !moved {
				stillStands(t, dst, l.group(prefix, group), l.lanes(at.dst))
			}
		}
	}
	firstRecordAfterAnEmptyLog(t, s, src, dst, logs[4], prefix)
	s.stop()
}

func (l *groupLog) prepare(t *testing.T, src *kafkatest.Cluster, prefix string) {
	l.t, l.src, l.topic = t, src, l.before+prefix+strings.ReplaceAll(l.name, " ", "-")
	kafkatest.Topic(t, src, kafkatest.TopicOptions{Name: l.topic, Partitions: l.partitions})
	l.write(l)
}

func (l *groupLog) group(prefix, name string) string { return prefix + l.name + ": " + name }

func (l *groupLog) lanes(at map[int32]int64) stands {
	out := make(stands)
	for p, next := range at {
		out[laneKey(l.topic, p)] = next
	}
	return out
}

// translatesAll checks that translate says of all groups what lockstep has committed.
func (s *service) translatesAll(logs []*groupLog, prefix string) {
	s.t.Helper()
	got, want := make(map[string]stands), make(map[string]stands)
	for _, l := range logs {
		for group, at := range l.stances {
			want[l.group(prefix, group)] = l.lanes(at.dst)
		}
	}
	for _, o := range s.translateGroups("--all-groups") {
		if got[o.Group] == nil {
			got[o.Group] = make(stands)
		}
		if o.TargetOffset != nil {
			got[o.Group][laneKey(o.TargetTopic, o.Partition)] = *o.TargetOffset
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		s.t.Errorf("translate --all-groups: %s", diff)
	}
}

// arrives waits until a group stands on the target where it has to, and checks that it reads there what it would read on
// the source.
func (s *service) arrives(src, dst *kafkatest.Cluster, l *groupLog, group string, at stance) {
	s.t.Helper()
	s.awaitStands(dst, group, l.lanes(at.dst))
	g := s.groupIs(group, "synced")
	if again := g.RecordsAgain; again == nil || *again != 0 {
		s.t.Errorf("group %s: records to read again: %s, want 0", group, offset(again))
	}
	for p, next := range at.src {
		end := kafkatest.End(s.t, dst, l.topic, p)
		if at.dst[p] == end {
			continue // it has read everything
		}
		if at.dst[p] > end {
			s.t.Errorf("group %s stands at %d of %s/%d, which ends at %d", group, at.dst[p], l.topic, p, end)
			continue
		}
		want, got := recordAt(s.t, src, l.topic, p, next), recordAt(s.t, dst, l.topic, p, at.dst[p])
		if identityOf(want) != identityOf(got) {
			s.t.Errorf("group %s: next in %s/%d is %q on the source and %q on the target", group, l.topic, p, want.Value, got.Value)
		}
	}
}

// firstRecordAfterAnEmptyLog checks that a group which had read all of a log that is empty by now reads what comes next,
// on the target too.
func firstRecordAfterAnEmptyLog(t *testing.T, s *service, src, dst *kafkatest.Cluster, l *groupLog, prefix string) {
	t.Helper()
	record := sequel()(1)
	record[0].Value = []byte("the first one afterwards")
	l.put(0, record)
	s.copied(src, l.topic)
	if got := firstRead(t, dst, l.group(prefix, "done"), l.topic, false); string(got.Value) != "the first one afterwards" || got.Offset != 0 {
		t.Errorf("the group reads %q at %d", got.Value, got.Offset)
	}
}

// A copied leader epoch would make the position invalid on the target, whose epochs are others. The consumer's own text
// comes along unchanged; clients of both protocols go on there.
func TestGroups_EpochAndMetadata(t *testing.T) {
	kafkatest.Long(t)
	t.Parallel()
	src, dst := pair(t)
	prefix := kafkatest.TopicName(t) + "-"
	topic := kafkatest.Topic(t, src)
	kafkatest.Produce(t, src, topic, 0, kafkatest.Records(60, 1))
	const text = "a text of the application: ü\x00,\""
	group := prefix + "billing"
	var os kadm.Offsets
	os.Add(kadm.Offset{Topic: topic, At: 37, LeaderEpoch: 57, Metadata: text})
	commit(t, src, group, os)
	s := newService(t, groupsBetween(src, dst, prefix, []string{topic})).start()
	s.awaitStands(dst, group, at(topic, 0, 37))
	got, _ := committed(t, dst, group).Lookup(topic, 0)
	if got.LeaderEpoch != -1 || got.Metadata != text {
		t.Errorf("on the target the position has epoch %d and the text %q", got.LeaderEpoch, got.Metadata)
	}
	want := recordAt(t, src, topic, 0, 37)
	for _, next := range []bool{false, true} {
		if got := firstRead(t, dst, group, topic, next); got.Offset != 37 || identityOf(got) != identityOf(want) {
			t.Errorf("a member goes on at %d, want 37", got.Offset)
		}
		s.groupEmpties(dst, group)
	}
	s.stop()
}

// groupEmpties waits until a group has no members.
func (s *service) groupEmpties(c kafkatest.Target, group string) {
	s.t.Helper()
	awaitGroupState(s.t, c, group, "Empty")
}

// awaitGroupState waits until a cluster says that a group is in one of the states.
func awaitGroupState(t testing.TB, c kafkatest.Target, group string, states ...string) {
	t.Helper()
	kafkatest.Eventually(t, groupPatience, func() (bool, string) {
		got, err := kadm.NewClient(c.Admin()).ListGroups(t.Context())
		if err != nil {
			return false, err.Error()
		}
		for _, state := range states {
			if got[group].State == state {
				return true, ""
			}
		}
		return false, fmt.Sprintf("group %s is %q, want %v", group, got[group].State, states)
	})
}

// A link that began at the end of its topics has no records for groups that stand before it: they begin with the first
// one that was copied, and it shows how much they miss.
func TestGroups_BeforeTheStart(t *testing.T) {
	t.Parallel()
	src, dst := pair(t)
	prefix := kafkatest.TopicName(t) + "-"
	topic := kafkatest.Topic(t, src)
	some := sequel()
	kafkatest.Produce(t, src, topic, 0, some(1000))
	stand(t, src, prefix+"billing", at(topic, 0, 400))
	stand(t, src, prefix+"audit", at(topic, 0, 1000))
	c := groupsBetween(src, dst, prefix, []string{topic})
	c.links[0].more = append(c.links[0].more, "start: latest")
	s := newService(t, c).start()
	s.awaitLane(topic, 0, 30*time.Second, isCopying)
	kafkatest.Produce(t, src, topic, 0, some(50))
	s.copied(src, topic)
	stand(t, src, prefix+"fresh", at(topic, 0, 1020))
	for group, next := range map[string]int64{"billing": 0, "audit": 0, "fresh": 20} {
		s.awaitStands(dst, prefix+group, at(topic, 0, next))
	}
	missing := map[string]int64{"billing": 600, "audit": 0, "fresh": 0}
	for group, n := range missing {
		if p := position(t, s.groupIs(prefix+group, "synced"), topic, 0); p.NeverCopied != n {
			t.Errorf("group %s: %d offsets were never copied, want %d: %+v", group, p.NeverCopied, n, p)
		}
	}
	s.stop()
}

// What a position points to may be gone from the target already: the group goes to where the log begins, since a position
// below it would be reset by the application's own policy.
func TestGroups_TargetTrimmed(t *testing.T) {
	kafkatest.Long(t)
	t.Parallel()
	src, dst := pair(t)
	prefix := kafkatest.TopicName(t) + "-"
	topic := kafkatest.Topic(t, src)
	kafkatest.Produce(t, src, topic, 0, kafkatest.Records(1000, 1))
	s := newService(t, groupsBetween(src, dst, prefix, []string{topic})).start()
	s.copied(src, topic)
	deleteBefore(t, dst, topic, 0, 300)
	stand(t, src, prefix+"billing", at(topic, 0, 100))
	s.awaitStands(dst, prefix+"billing", at(topic, 0, 300))
	p := position(t, s.groupIs(prefix+"billing", "synced"), topic, 0)
	if !strings.Contains(p.Detail, "100 to 299") {
		t.Errorf("the position is %+v, want the range that is not there", p)
	}
	s.stop()
}
