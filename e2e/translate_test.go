package e2e

import (
	"encoding/csv"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"lockstep/api"
	"lockstep/internal/kafkatest"
)

// The source and the service die in the same moment. What is on the target must tell, for every record that landed, its
// source offset and back; no other source of truth is left. Afterwards the source is brought back only to know what would
// have been right.
func TestTranslate_SourceAndServiceDie(t *testing.T) {
	kafkatest.Long(t)
	_, dst := pair(t)
	src := kafkatest.Start(t, kafkatest.Options{})
	topics := trafficTopics(t, src, 1)
	x := startTraffic(t, src, topics, seeded(t))
	s := newService(t, linkBetween(src, dst, topics)).start()
	s.reached(stableEnds(t, src, topics...))
	rest(t.Context(), 3*time.Second)
	s.kill() // recovered once, so that there are several openings
	s.start()
	s.reached(stableEnds(t, src, topics...))
	rest(t.Context(), 5*time.Second)
	upTo := logEnds(t, src, topics...)
	for _, es := range upTo {
		for p := range es {
			es[p] += 200 // what is written before death comes
		}
	}
	x.dies()
	src.Kill(t, 1)
	s.kill()

	forth := s.translateAll(false, upTo)
	back := s.translateAll(true, logEnds(t, dst, topics...))
	src.Restart(t, 1)
	for _, topic := range topics {
		kafkatest.AwaitLeaders(t, src, topic)
		for p := range partitions(t, src, topic) {
			truth := readTruth(t, src, dst, topic, p)
			truth.checkForth(t, forth[laneKey(topic, p)])
			truth.checkBack(t, back[laneKey(topic, p)])
		}
	}
	s.start()
	x.cancel()
	x.wg.Wait()
	s.equal(src, dst, topics...)
	s.stop()
}

// truth is where each record of a partition stands on both sides, found by its value, which no other record has.
type truth struct {
	lane     string
	src, dst []int64 // offsets of the copied records, in order
}

func readTruth(t testing.TB, src, dst kafkatest.Target, topic string, partition int32) truth {
	t.Helper()
	return truthFrom(t, src, dst, topic, partition, 0)
}

// truthFrom is readTruth for a copy that begins at a target offset.
func truthFrom(t testing.TB, src, dst kafkatest.Target, topic string, partition int32, dstFrom int64) truth {
	t.Helper()
	at := make(map[string]int64)
	for _, r := range kafkatest.Read(t, src, topic, partition, false) {
		at[identityOf(r)] = r.Offset
	}
	tr := truth{lane: laneKey(topic, partition)}
	for _, r := range kafkatest.Read(t, dst, topic, partition, true) {
		if r.Offset < dstFrom {
			continue
		}
		o, ok := at[identityOf(r)]
		if !ok {
			t.Fatalf("%s: the record at target offset %d is not on the source", tr.lane, r.Offset)
		}
		if n := len(tr.src); n > 0 && tr.src[n-1] >= o {
			t.Fatalf("%s: target offset %d holds source offset %d, before it stands %d", tr.lane, r.Offset, o, tr.src[n-1])
		}
		tr.src, tr.dst = append(tr.src, o), append(tr.dst, r.Offset)
	}
	if len(tr.src) == 0 {
		t.Fatalf("%s: nothing was copied", tr.lane)
	}
	t.Logf("%s: %d records on the target, the last from source offset %d", tr.lane, len(tr.src), tr.src[len(tr.src)-1])
	return tr
}

// identityOf tells records apart. A compacted topic has tombstones, which have no value; there key and time do.
func identityOf(r *kgo.Record) string {
	return fmt.Sprintf("%s|%s|%d", r.Value, r.Key, r.Timestamp.UnixMilli())
}

// checkForth: each copied record translates to itself, an offset between two to the next, one behind the last to the end
// of the copy.
func (tr truth) checkForth(t testing.TB, got []api.Offset) {
	t.Helper()
	check(t, tr.lane+" forth", tr.src, tr.dst, got, 0, func(o api.Offset) (asked, answer *int64) { return o.SourceOffset, o.TargetOffset })
}

// checkBack is checkForth the other way round. Between two terms stands a marker; what comes next there is the source
// offset where the new term began to read, and from it to the first record that it copied there may be some way.
func (tr truth) checkBack(t testing.TB, got []api.Offset) {
	t.Helper()
	check(t, tr.lane+" back", tr.dst, tr.src, got, 500, func(o api.Offset) (asked, answer *int64) { return o.TargetOffset, o.SourceOffset })
}

// check compares answers with the truth. In a hole, and behind the last record, an answer may be up to early offsets
// before what is wanted, as long as no copied record lies between them.
func check(t testing.TB, what string, from, to []int64, got []api.Offset, early int64, sides func(api.Offset) (asked, answer *int64)) {
	t.Helper()
	next, wrong := 0, 0
	last := from[len(from)-1]
	for _, o := range got {
		asked, answer := sides(o)
		for next < len(from) && from[next] < *asked {
			next++
		}
		var want int64
		states := "hole"
		switch {
		case next == len(from):
			states = "exact hole ahead" // at the cursor, or behind it
			want = to[len(to)-1] + 1
		case from[next] == *asked:
			want, states = to[next], "exact"
		default:
			want = to[next]
			if next == 0 {
				states = "hole before_start"
			}
		}
		switch {
		case answer == nil || !strings.Contains(states, o.State):
		case *answer == want:
			continue
		case o.State == "hole" && next > 0 && *answer > to[next-1] && *answer < want && want-*answer <= early:
			continue
		case *asked > last && *answer >= want && *answer < want+500:
			continue // behind the last record an answer may lie behind markers that follow it
		}
		if wrong++; wrong <= 5 {
			t.Errorf("%s: %d is %s %s, want %d as %s", what, *asked, offset(answer), o.State, want, states)
		}
	}
	if wrong > 5 {
		t.Errorf("%s: %d of %d answers are wrong", what, wrong, len(got))
	}
}

// What was said of an offset once stays true over clean restarts, deaths, and the terms that they bring.
func TestTranslate_AfterRestartsAndTerms(t *testing.T) {
	t.Parallel()
	src, dst := pair(t)
	some := sequel()
	topic := kafkatest.Topic(t, src)
	s := newService(t, linkBetween(src, dst, []string{topic}))
	said := map[int64]int64{}
	var upTo int64
	for round := range 6 {
		s.start()
		kafkatest.Produce(t, src, topic, 0, some(30), kafkatest.ProduceOptions{Txn: kafkatest.Commit, BatchRecords: 4})
		kafkatest.Produce(t, src, topic, 0, some(9), kafkatest.ProduceOptions{Txn: kafkatest.Abort})
		kafkatest.Produce(t, src, topic, 0, some(20), kafkatest.ProduceOptions{BatchRecords: 7})
		s.equal(src, dst, topic)
		upTo = kafkatest.End(t, src, topic, 0)
		for _, o := range s.translate(false, topic, 0, count(upTo)...) {
			if o.TargetOffset == nil {
				t.Fatalf("round %d: no answer for source offset %d: %s", round, *o.SourceOffset, o.State)
			}
			was, ok := said[*o.SourceOffset]
			if ok && was != *o.TargetOffset {
				t.Errorf("round %d: source offset %d was target offset %d and is %d now", round, *o.SourceOffset, was, *o.TargetOffset)
			}
			said[*o.SourceOffset] = *o.TargetOffset
		}
		if round%2 == 0 {
			s.kill()
		} else {
			s.stop()
		}
	}
	got := s.translateAll(false, ends{topic: {upTo}})[laneKey(topic, 0)]
	tr := readTruth(t, src, dst, topic, 0)
	tr.checkForth(t, got)
	tr.checkBack(t, s.translateAll(true, logEnds(t, dst, topic))[laneKey(topic, 0)])
	for _, o := range got {
		if was := said[*o.SourceOffset]; was != *o.TargetOffset {
			t.Errorf("without a service, source offset %d is target offset %d; the service said %d", *o.SourceOffset, *o.TargetOffset, was)
		}
	}
}

func count(n int64) []int64 {
	out := make([]int64, n)
	for i := range out {
		out[i] = int64(i)
	}
	return out
}

// The three forms of output say the same, with a service and without.
func TestTranslate_Output(t *testing.T) {
	t.Parallel()
	src, dst := pair(t)
	some := sequel()
	topic := kafkatest.Topic(t, src, kafkatest.TopicOptions{Partitions: 2})
	kafkatest.Produce(t, src, topic, 0, some(5), kafkatest.ProduceOptions{Txn: kafkatest.Commit})
	kafkatest.Eventually(t, 20*time.Second, func() (bool, string) { // the marker comes after the answer
		return kafkatest.StableEnd(t, src, topic, 0) == 6, "the marker does not stand yet"
	})
	kafkatest.Produce(t, src, topic, 0, some(5))
	c := linkBetween(src, dst, []string{topic})
	c.links[0].rename = "copy.{topic}"
	s := newService(t, c).start()
	s.copied(src, topic)
	for _, running := range []bool{true, false} {
		if !running {
			s.stop()
		}
		one := []string{"translate", "--link", s.link(), "--topic", topic, "--partition", "0", "--offset"}
		s.command(append(one, "6")...).want(t, 0).says(t, "SOURCE OFFSET", "copy."+topic, "exact")
		rows, err := csv.NewReader(strings.NewReader(s.command(append(one, "5", "-o", "csv")...).want(t, 0).stdout)).ReadAll()
		if err != nil || len(rows) != 2 || strings.Join(rows[1], " ") != strings.Join([]string{s.link(), topic, "0", "5", "copy." + topic, "5", "hole"}, " ") {
			t.Errorf("running %v: CSV is %v, %v", running, rows, err)
		}
		got := decodeOffsets(t, s.command(append(one, "99", "-o", "json")...).want(t, 0).stdout)
		if len(got) != 1 || shortly(got[0]) != "10 ahead "+strconv.Itoa(99-11) {
			t.Errorf("running %v: JSON is %+v", running, got)
		}
		got = decodeOffsets(t, s.command(append(one, "7", "-o", "json", "--reverse")...).want(t, 0).stdout)
		if len(got) != 1 || *got[0].TargetOffset != 7 || *got[0].SourceOffset != 8 {
			t.Errorf("running %v: target offset 7 is %+v, want source offset 8", running, got)
		}
		s.command("translate", "--link", s.link(), "--topic", "no-such", "--partition", "0", "--offset", "0").want(t, 1)
		s.command("translate", "--link", "no-such", "--topic", topic, "--partition", "0", "--offset", "0").says(t, "no-such")
		s.nonsense(t, topic)
	}
}

// nonsense on the standard input is refused with the line and what would be right.
func (s *service) nonsense(t *testing.T, topic string) {
	t.Helper()
	ask := func(stdin string) result {
		return lockstepReading(t, stdin, "translate", "--link", s.link(), "--stdin", "-o", "csv", "-c", s.file)
	}
	for stdin, says := range map[string]string{
		topic + ",0,x\n":                    "line 1",
		topic + ",0,1\n" + topic + ",y,1\n": "line 2",
		topic + ",0,-5\n":                   "-5",
		topic + ",0\n":                      "topic,partition,offset",
		topic + ",99999999999,1\n":          "99999999999",
		topic + ",0,99999999999999999999\n": "99999999999999999999",
		"\"unfinished":                      "standard input",
		"\x00\xff\xfe":                      "standard input",
	} {
		ask(stdin).want(t, 2).says(t, says)
	}
	ask("").want(t, 0)
	ask(topic+", 0, 1\n").want(t, 0).says(t, ",1,exact")
	ask(topic+",0,1\nno-such,0,1\n").want(t, 5).says(t, ",1,exact", "unknown")
}
