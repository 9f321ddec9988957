package mm2

import (
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lockstep/checkpoint"
	"lockstep/internal/kafkatest"
	"lockstep/internal/model"
	"lockstep/offsetsync"
)

const readers = "org.apache.kafka.connect.mirror.Readers"

// Apache's own classes make the same bytes.
func TestFormats_EqualApaches(t *testing.T) {
	t.Parallel()
	java := kafkatest.NewJava(t, "testdata/Readers.java")
	got := java.Run(t, "bytes\n", readers, "127.0.0.1:1", "org.apache.kafka.connect.mirror.DefaultReplicationPolicy", ".", "A")
	var want []string
	for _, s := range samples() {
		key, value, err := s.says.Encode()
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, strings.Join([]string{"bytes", hex.EncodeToString(key), hex.EncodeToString(value)}, " "))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-ours +Apache's:\n%s", diff)
	}
}

// logOf is a lane as transactions and compaction leave it: markers and removed records make holes on the source, markers
// of terms on the target.
func logOf(t *testing.T, spans int) *offsetsync.Map {
	t.Helper()
	m := offsetsync.NewMap(3, 0)
	rng := rand.New(rand.NewPCG(1, 2))
	for range spans {
		src, dst := m.End()
		s := model.Span{Src: src + rng.Int64N(4), Dst: dst + rng.Int64N(2), N: 1 + rng.Int64N(9)}
		if err := m.Append(s); err != nil {
			t.Fatal(err)
		}
	}
	return m
}

// Java's readers find the link and say of each group exactly what we say; MirrorMaker's own way of translating never says
// more, and the same for the newest record and what follows it.
func TestWriter_JavaReads(t *testing.T) {
	t.Parallel()
	java := kafkatest.NewJava(t, "testdata/Readers.java")
	for policy, prefix := range map[string]bool{"DefaultReplicationPolicy": true, "IdentityReplicationPolicy": false} {
		t.Run(policy, func(t *testing.T) {
			t.Parallel()
			javaReads(t, java, policy, prefix)
		})
	}
}

func javaReads(t *testing.T, java *kafkatest.Java, policy string, prefix bool) {
	dst := kafkatest.Shared(t, kafkatest.Kafka4, 1)
	cluster := dial(t, "backup", dst)
	n := Names{Source: "src-" + policy, Target: "backup"}
	w, _ := start(t, Options{Names: n, Src: cluster, Dst: cluster})
	there := "orders"
	if prefix {
		there = n.Source + ".orders"
	}
	lane := func(m *offsetsync.Map, opening uint64) map[checkpoint.Key]checkpoint.Lane {
		return map[checkpoint.Key]checkpoint.Lane{orders3: {DstTopic: there, Map: m, Opening: opening, DstEnd: 1 << 20}}
	}
	stands := func(group string, m *offsetsync.Map, src int64) checkpoint.Row {
		r := row(group, src, m.Translate(src).Offset)
		r.DstTopic, r.Metadata = there, "of "+group
		return r
	}
	// First another log, on a target that was lost since; then the present one, in three steps.
	lost := mapOf(t, 0, 0, model.Span{N: 5000})
	passes := []checkpoint.Pass{passOf(lane(lost, 1), stands("app", lost, 4000))}
	var m *offsetsync.Map
	for _, spans := range []int{20, 150, 200} {
		m = logOf(t, spans)
		_, end := m.End()
		src, ok := m.Newest(1 << 40)
		if !ok || end == 0 {
			t.Fatal("an empty log")
		}
		passes = append(passes, passOf(lane(m, 2), stands("app", m, src.Src-7), stands("at-the-end", m, src.Src+1), stands("ahead", m, src.Src+99)))
	}
	for _, p := range passes {
		w.Passed(p)
		awaitTaken(t, dst, n, p)
	}
	awaitInSync(t, w)

	newest, _ := m.Newest(1 << 40)
	ask := fmt.Sprintf("hops %s\nupstream\ncheckpoints\nheartbeats\ntranslate %[1]s app\nclient %[1]s at-the-end\nregex %[1]s a.*\nformat %s checkpoint\nformat %s sync\nformat %s heartbeat\nstore %[3]s\n",
		n.Source, n.Checkpoints(), n.OffsetSyncs(false), n.RemoteHeartbeats())
	for g := range newest.Src + 5 {
		ask += fmt.Sprintf("sync orders 3 %d\n", g)
	}
	got := java.Run(t, ask, readers, strings.Join(dst.Brokers(), ","), "org.apache.kafka.connect.mirror."+policy, ".", "src-IdentityReplicationPolicy")

	says := func(want string) {
		t.Helper()
		if !slices.Contains(got, want) {
			t.Errorf("Java does not say %q, but\n%s", want, strings.Join(got[:min(len(got), 60)], "\n"))
		}
	}
	offset := func(src int64) int64 { return m.Translate(src).Offset }
	says("hops 1")
	says(fmt.Sprintf("translate app %s/3 %d =of app", there, offset(newest.Src-7)))
	says(fmt.Sprintf("client at-the-end %s/3 %d =of at-the-end", there, offset(newest.Src+1)))
	says(fmt.Sprintf("regex app %s/3 %d =of app", there, offset(newest.Src-7)))
	says(fmt.Sprintf("regex at-the-end %s/3 %d =of at-the-end", there, offset(newest.Src+1)))
	says(fmt.Sprintf("regex ahead %s/3 %d =of ahead", there, offset(newest.Src+99)))
	says(fmt.Sprintf("format Checkpoint{consumerGroupId=app, topicPartition=%s-3, upstreamOffset=%d, downstreamOffset=%d, metadata=of app}", there, newest.Src-7, offset(newest.Src-7)))
	says(fmt.Sprintf("format OffsetSync{topicPartition=orders-3, upstreamOffset=%d, downstreamOffset=%d}", newest.Src, newest.Dst))
	for _, list := range []string{"upstream", "checkpoints", "heartbeats"} {
		i := slices.IndexFunc(got, func(line string) bool { return strings.HasPrefix(line, list+" [") })
		name := map[string]string{"upstream": n.Source, "checkpoints": n.Checkpoints(), "heartbeats": n.RemoteHeartbeats()}[list]
		if i < 0 || !strings.Contains(got[i], name) {
			t.Errorf("Java does not find %s among %s:\n%s", name, list, strings.Join(got[:min(len(got), 60)], "\n"))
		}
	}
	if !slices.ContainsFunc(got, func(line string) bool {
		return strings.HasPrefix(line, fmt.Sprintf("format Heartbeat{sourceClusterAlias=%s, targetClusterAlias=backup, timestamp=", n.Source))
	}) {
		t.Error("Java formats no heartbeat")
	}
	judgeJava(t, got, m, newest)
}

// judgeJava compares Java's translations by offset syncs with ours.
func judgeJava(t *testing.T, lines []string, m *offsetsync.Map, newest model.Span) {
	t.Helper()
	known, exact := 0, 0
	for _, line := range lines {
		var g, d int64
		if _, err := fmt.Sscanf(line, "sync %d %d", &g, &d); err != nil || d < 0 {
			continue
		}
		known++
		ours := m.Translate(g).Offset
		if d > ours {
			t.Errorf("Java translates %d to %d, behind ours, %d", g, d, ours)
		}
		if d == ours {
			exact++
		}
		if (g == newest.Src || g == newest.Src+1) && d != ours {
			t.Errorf("Java translates %d, at the newest record %+v, to %d; ours is %d", g, newest, d, ours)
		}
	}
	t.Logf("Java translated %d offsets, %d of them exactly", known, exact)
	if known < int(newest.Src)/2 {
		t.Errorf("Java translated only %d of %d offsets", known, newest.Src)
	}
}

// awaitTaken waits until both topics hold what the pass says.
func awaitTaken(t *testing.T, c kafkatest.Target, n Names, p checkpoint.Pass) {
	t.Helper()
	last := p.Rows[len(p.Rows)-1]
	newest, _ := p.Lanes[orders3].Map.Newest(1 << 40)
	kafkatest.Eventually(t, 30*time.Second, func() (bool, string) {
		var cp Checkpoint
		for _, r := range records(t, c, n.Checkpoints()) {
			if got, err := DecodeCheckpoint(r.Key, r.Value); err == nil && got.Group == last.DstGroup {
				cp = got
			}
		}
		var s OffsetSync
		if rs := records(t, c, n.OffsetSyncs(false)); len(rs) > 0 {
			s, _ = DecodeOffsetSync(rs[len(rs)-1].Key, rs[len(rs)-1].Value)
		}
		return cp.Downstream == last.Translated && s.Upstream == newest.Src && s.Downstream == newest.Dst, fmt.Sprintf("%+v, %+v; want %+v, %+v", cp, s, last, newest)
	})
}
