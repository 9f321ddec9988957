package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"lockstep/checkpoint"
	"lockstep/checkpoint/reset"
	"lockstep/config"
	"lockstep/internal/kafka"
	"lockstep/internal/kafkatest"
)

// offsetsWorld is a link "dr" from one cluster to another, with a topic "orders" of three partitions on both.
type offsetsWorld struct {
	t        *testing.T
	src, dst kafkatest.Target
	file     string
	dir      string
}

func newOffsetsWorld(t *testing.T, src, dst kafkatest.Target) *offsetsWorld {
	t.Helper()
	w := &offsetsWorld{t: t, src: src, dst: dst, dir: t.TempDir()}
	w.file = filepath.Join(w.dir, "lockstep.yaml")
	w.write("lockstep.yaml", fmt.Sprintf("clusters:\n  primary: {brokers: [%q]}\n  backup: {brokers: [%q]}\nlinks:\n  - {name: dr, source: primary, target: backup, topics: {include: [\"orders\"]}}\n",
		src.Brokers()[0], dst.Brokers()[0]))
	return w
}

func fakeOffsetsWorld(t *testing.T) *offsetsWorld {
	t.Helper()
	src, dst := kafkatest.FakePair(t)
	w := newOffsetsWorld(t, src, dst)
	for _, c := range []kafkatest.Target{src, dst} {
		kafkatest.Topic(t, c, kafkatest.TopicOptions{Name: "orders", Partitions: 3})
		w.produce(c, "orders")
	}
	return w
}

// produce writes ten records into each of three partitions: key k-N, a minute apart from 2024-03-31T00:00Z on; the last
// two have the same time.
func (w *offsetsWorld) produce(c kafkatest.Target, topic string) {
	w.t.Helper()
	start := time.Date(2024, 3, 31, 0, 0, 0, 0, time.UTC)
	for p := range int32(3) {
		var rs []*kgo.Record
		for i := range 10 {
			rs = append(rs, &kgo.Record{Key: fmt.Appendf(nil, "k-%d", i), Value: []byte("v"), Timestamp: start.Add(time.Duration(min(i, 8)) * time.Minute)})
		}
		kafkatest.Produce(w.t, c, topic, p, rs)
	}
}

func (w *offsetsWorld) write(name, text string) string {
	w.t.Helper()
	file := filepath.Join(w.dir, name)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		w.t.Fatal(err)
	}
	return file
}

// commit sets a group's positions of a topic, partition by partition; -1 is none.
func (w *offsetsWorld) commit(c kafkatest.Target, group, topic string, offsets ...int64) {
	w.t.Helper()
	var os kadm.Offsets
	for p, off := range offsets {
		if off >= 0 {
			os.Add(kadm.Offset{Topic: topic, Partition: int32(p), At: off, LeaderEpoch: -1, Metadata: fmt.Sprintf("m%d", off)})
		}
	}
	if err := kadm.NewClient(c.Admin()).CommitAllOffsets(w.t.Context(), group, os); err != nil {
		w.t.Fatal(err)
	}
}

// positions are a group's committed positions, as "orders/0=5:m5 orders/2=7".
func (w *offsetsWorld) positions(c kafkatest.Target, group string) string {
	w.t.Helper()
	os, err := kadm.NewClient(c.Admin()).FetchOffsets(w.t.Context(), group)
	if err != nil {
		w.t.Fatal(err)
	}
	var out []string
	for _, o := range os.Sorted() {
		text := fmt.Sprintf("%s/%d=%d", o.Topic, o.Partition, o.At)
		if o.Metadata != "" {
			text += ":" + o.Metadata
		}
		if o.LeaderEpoch != -1 {
			text += fmt.Sprintf(" (epoch %d)", o.LeaderEpoch)
		}
		out = append(out, text)
	}
	return strings.Join(out, " ")
}

// lockstep runs a command of offsets and returns what it printed. It expects the exit code.
func (w *offsetsWorld) lockstep(code int, args ...string) (stdout, stderr string) {
	w.t.Helper()
	var out, errs bytes.Buffer
	a := &app{stdin: strings.NewReader(""), stdout: &out, stderr: &errs}
	if got := a.run(append([]string{"offsets", "-c", w.file}, args...)); got != code {
		w.t.Fatalf("lockstep offsets %q: exit code %d, want %d\n%s%s", args, got, code, out.String(), errs.String())
	}
	return out.String(), errs.String()
}

func (w *offsetsWorld) wantPositions(c kafkatest.Target, group, want string) {
	w.t.Helper()
	if got := w.positions(c, group); got != want {
		w.t.Errorf("group %s stands at %q, want %q", group, got, want)
	}
}

func mustContain(t *testing.T, text string, words ...string) {
	t.Helper()
	for _, s := range words {
		if !strings.Contains(text, s) {
			t.Errorf("no %q in:\n%s", s, text)
		}
	}
}

var undoLine = regexp.MustCompile(`offsets undo --link dr -c \S+ (\S+)`)

func undoID(t *testing.T, out string) string {
	t.Helper()
	m := undoLine.FindStringSubmatch(out)
	if m == nil {
		t.Fatalf("no line that says how to undo:\n%s", out)
	}
	return m[1]
}

func TestOffsetsReset_Forms(t *testing.T) {
	t.Parallel()
	w := fakeOffsetsWorld(t)
	for _, c := range []struct {
		args []string
		want string
		says string
	}{
		{[]string{"--to-earliest"}, "orders/0=0 orders/1=0 orders/2=0:m0", "-> 0"},
		{[]string{"--to-latest"}, "orders/0=10 orders/1=10 orders/2=10", "end"},
		{[]string{"--to-current"}, "orders/0=5:m5 orders/1=10 orders/2=0:m0", "2 unchanged"},
		{[]string{"--to-offset", "7"}, "orders/0=7 orders/1=7 orders/2=7", `"k-7"`},
		{[]string{"--to-offset", "99"}, "orders/0=10 orders/1=10 orders/2=10", "99 is behind the log's end"},
		{[]string{"--to-datetime", "2024-03-31T01:03+01:00"}, "orders/0=3 orders/1=3 orders/2=3", "2024-03-31T00:03:00Z"},
		{[]string{"--to-datetime", "1711843380s"}, "orders/0=3 orders/1=3 orders/2=3", "reset --to-datetime 2024-03-31T00:03:00Z"},
		{[]string{"--to-datetime", "2024-03-31T00:08:00Z"}, "orders/0=8 orders/1=8 orders/2=8", `"k-8"`}, // the first of two with this time
		{[]string{"--to-datetime", "2024-03-31T00:08:00.001Z"}, "orders/0=10 orders/1=10 orders/2=10", "no record at or after 2024-03-31T00:08:00.001Z: the end"},
		{[]string{"--to-datetime", "1969-12-31T23:59:59Z"}, "orders/0=0 orders/1=0 orders/2=0:m0", "-> 0"},
		{[]string{"--by-duration", "PT1H"}, "orders/0=10 orders/1=10 orders/2=10", "the end"},
		{[]string{"--by-duration", "P20000D"}, "orders/0=0 orders/1=0 orders/2=0:m0", "-> 0"},
	} {
		w.commit(w.dst, "billing", "orders", 5, -1, 0)
		deleteOffset(t, w.dst, "billing", "orders", 1)
		args := append([]string{"reset", "--link", "dr", "--group", "billing", "--topic", "orders"}, c.args...)
		plan, _ := w.lockstep(0, append(args, "--dry-run")...)
		w.wantPositions(w.dst, "billing", "orders/0=5:m5 orders/2=0:m0")
		mustContain(t, plan, c.says)
		out, shown := w.lockstep(0, append(args, "--yes")...)
		if fromNow.ReplaceAllString(shown, "") != fromNow.ReplaceAllString(plan, "") {
			t.Errorf("%q: the dry run showed\n%s\nand the real run\n%s", c.args, plan, shown)
		}
		mustContain(t, out, "written 3, verified 3")
		w.wantPositions(w.dst, "billing", c.want)
	}
}

// fromNow is what a duration means at the moment of the command.
var fromNow = regexp.MustCompile(`(to|at or after) [-0-9]+T[0-9:.]+Z`)

func deleteOffset(t *testing.T, c kafkatest.Target, group, topic string, partition int32) {
	t.Helper()
	var ts kadm.TopicsSet
	ts.Add(topic, partition)
	if _, err := kadm.NewClient(c.Admin()).DeleteOffsets(t.Context(), group, ts); err != nil {
		t.Fatal(err)
	}
}

func TestOffsetsReset_PlanShowsTheRecords(t *testing.T) {
	t.Parallel()
	w := fakeOffsetsWorld(t)
	w.commit(w.dst, "billing", "orders", 5, 10)
	out, _ := w.lockstep(0, "reset", "--link", "dr", "--group", "billing", "--topic", "orders:0", "--to-offset", "2", "--dry-run")
	want := `reset --to-offset 2, on cluster backup

group billing
PARTITION  OFFSET  DIFFERENCE  NEXT KEY  NEXT TIME
orders/0   5                   "k-5"     2024-03-31T00:05:00Z
           -> 2    -3          "k-2"     2024-03-31T00:02:00Z

warning: only some partitions of orders move: group billing has positions in 1 that stay
1 position to move
`
	if out != want {
		t.Errorf("got\n%s\nwant\n%s", out, want)
	}
	js, _ := w.lockstep(0, "reset", "--link", "dr", "--group", "billing", "--all-topics", "--shift-by", "-3", "--dry-run", "-o", "json")
	var got movesAnswer
	if err := json.Unmarshal([]byte(js), &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Moves) != 2 || *got.Moves[0].New != 2 || *got.Moves[0].NewRecord.Key != `"k-2"` || !got.Moves[1].OldRecord.End || len(got.Warnings) != 0 {
		t.Errorf("%s", js)
	}
}

func TestOffsetsReset_Refusals(t *testing.T) {
	t.Parallel()
	w := fakeOffsetsWorld(t)
	w.commit(w.dst, "billing", "orders", 5)
	for _, c := range []struct {
		code int
		args []string
		says string
	}{
		{2, []string{"reset", "--group", "billing", "--all-topics", "--to-earliest", "--yes"}, "--link"},
		{2, []string{"reset", "--link", "dr", "--all-topics", "--to-earliest", "--yes"}, "--all-groups"},
		{2, []string{"reset", "--link", "dr", "--group", "billing", "--to-earliest", "--yes"}, "--all-topics"},
		{2, []string{"reset", "--link", "dr", "--group", "billing", "--all-topics", "--yes"}, "exactly one"},
		{2, []string{"reset", "--link", "dr", "--group", "billing", "--all-topics", "--to-earliest", "--to-latest", "--yes"}, "2 are given"},
		{2, []string{"reset", "--link", "dr", "--group", "billing", "--all-topics", "--to-earliest"}, "no terminal"},
		{2, []string{"reset", "--link", "dr", "--group", "billing", "--topic", "nothing", "--to-earliest", "--yes"}, "no topic nothing"},
		{2, []string{"reset", "--link", "dr", "--group", "billing", "--topic", "orders:0,9", "--to-earliest", "--yes"}, "no partition orders/9"},
		{2, []string{"reset", "--link", "dr", "--group", "billing", "--topic", "orders:x", "--to-earliest", "--yes"}, `partition "x"`},
		{2, []string{"reset", "--link", "dr", "--group", "billing", "--all-topics", "--to-datetime", "2024-03-31T02:30", "--yes"}, "add Z or an offset"},
		{2, []string{"reset", "--link", "dr", "--group", "billing", "--all-topics", "--to-datetime", "1711848600", "--yes"}, "as seconds, 1711848600s, it is 2024-03-31T01:30:00Z"},
		{2, []string{"reset", "--link", "dr", "--group", "billing", "--all-topics", "--to-datetime", "1711848600ms", "--yes"}, "as seconds, 1711848600s, it is 2024-03-31T01:30:00Z"},
		{2, []string{"reset", "--link", "dr", "--group", "billing", "--all-topics", "--by-duration", "7200000", "--yes"}, "as milliseconds, 7200000ms, it is 2h0m0s"},
		{2, []string{"reset", "--link", "dr", "--group", "billing", "--all-topics", "--to-earliest", "--side", "both", "--yes"}, "--side"},
		{2, []string{"reset", "--link", "none", "--group", "billing", "--all-topics", "--to-earliest", "--yes"}, `no link "none"`},
		{2, []string{"reset", "--link", "dr", "--server", "http://127.0.0.1:1", "--group", "billing", "--all-topics", "--to-earliest", "--yes"}, "not through a service"},
		{3, []string{"reset", "--link", "dr", "--group", "nobody", "--all-topics", "--to-earliest", "--yes"}, `"nobody" has no positions`},
		{3, []string{"reset", "--link", "dr", "--group", "billing", "--topic", "orders:1", "--shift-by", "1", "--yes"}, "nothing was done"},
	} {
		out, errs := w.lockstep(c.code, c.args...)
		mustContain(t, out+errs, c.says)
	}
	w.wantPositions(w.dst, "billing", "orders/0=5:m5")
}

func TestOffsets_NeedAConfiguration(t *testing.T) {
	t.Chdir(t.TempDir())
	var errs bytes.Buffer
	a := &app{stdin: strings.NewReader(""), stdout: &bytes.Buffer{}, stderr: &errs}
	if code := a.run([]string{"offsets", "list", "--link", "dr"}); code != exitUsage || !strings.Contains(errs.String(), "-c") {
		t.Errorf("exit code %d, %s", code, errs.String())
	}
}

func TestOffsetsUndo_BringsBackAndIsUndone(t *testing.T) {
	t.Parallel()
	w := fakeOffsetsWorld(t)
	w.commit(w.dst, "billing", "orders", 5, -1, 7)
	earliest := []string{"reset", "--link", "dr", "--group", "billing", "--topic", "orders", "--to-earliest", "--yes", "--reason", "replay"}
	out, _ := w.lockstep(0, earliest...)
	w.wantPositions(w.dst, "billing", "orders/0=0 orders/1=0 orders/2=0")
	list, _ := w.lockstep(0, "undo", "--link", "dr", "--list")
	mustContain(t, list, undoID(t, out), "reset --to-earliest: replay", "backup")

	undone, plan := w.lockstep(0, "undo", "--link", "dr", undoID(t, out), "--yes")
	mustContain(t, plan, "-> none", "-> 5", `"k-5"`)
	mustContain(t, undone, "written 3, verified 3")
	w.wantPositions(w.dst, "billing", "orders/0=5:m5 orders/2=7:m7")

	_, _ = w.lockstep(0, "undo", "--link", "dr", undoID(t, undone), "--yes")
	w.wantPositions(w.dst, "billing", "orders/0=0 orders/1=0 orders/2=0")

	w.commit(w.dst, "billing", "orders", 9)
	_, plan = w.lockstep(0, "undo", "--link", "dr", undoID(t, out), "--yes")
	mustContain(t, plan, "it moved after the change, which had left it at 0")
	w.wantPositions(w.dst, "billing", "orders/0=5:m5 orders/2=7:m7")
	_, errs := w.lockstep(2, "undo", "--link", "dr", "20200101-000000-0000", "--yes")
	mustContain(t, errs, "has no change")
}

func TestOffsetsReset_HostZoneMakesNoDifference(t *testing.T) {
	t.Parallel()
	w := fakeOffsetsWorld(t)
	topic := kafkatest.Topic(t, w.dst, kafkatest.TopicOptions{Name: "zones"})
	for _, hour := range []string{"00:30", "01:30", "02:30"} {
		at, err := time.Parse(time.RFC3339, "2024-03-31T"+hour+":00Z")
		if err != nil {
			t.Fatal(err)
		}
		kafkatest.Produce(t, w.dst, topic, 0, []*kgo.Record{{Value: []byte("v"), Timestamp: at}})
	}
	w.commit(w.dst, "g", topic, 3)
	inZone := func(zone, text string) (string, error) {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "offsets", "reset", "-c", w.file, "--link", "dr", "--group", "g", "--all-topics", "--to-datetime", text, "--dry-run")
		cmd.Env = append(os.Environ(), "TZ="+zone)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	for _, zone := range []string{"UTC", "Europe/Berlin", "Asia/Kolkata"} {
		for _, text := range []string{"2024-03-31T02:30+01:00", "2024-03-31T07:00+05:30"} {
			out, err := inZone(zone, text)
			if err != nil || !strings.Contains(out, "reset --to-datetime 2024-03-31T01:30:00Z") || !strings.Contains(out, "-> 1 ") {
				t.Errorf("TZ=%s, %s: %v\n%s", zone, text, err, out)
			}
			if want := "-> 1    -2          null      2024-03-31T01:30:00Z"; !strings.Contains(out, want) {
				t.Errorf("TZ=%s, %s: no %q in\n%s", zone, text, want, out)
			}
		}
		if out, err := inZone(zone, "2024-03-31T02:30"); err == nil || !strings.Contains(out, "add Z or an offset") {
			t.Errorf("TZ=%s, without a zone: %v\n%s", zone, err, out)
		}
	}
}

// The source is gone: what the target says is shown, and the exit code tells that it is not all.
func TestOffsetsList_WithoutTheSource(t *testing.T) {
	t.Parallel()
	w := fakeOffsetsWorld(t)
	w.commit(w.dst, "billing", "orders", 6)
	w.src.(*kafkatest.Fake).Close()
	out, errs := w.lockstep(5, "list", "--link", "dr", "--group", "billing", "-o", "csv")
	mustContain(t, out, "billing,orders,0,source,-,-,-,-,-,\n", "billing,orders,0,target,0,10,10,6,4,m6\n")
	mustContain(t, errs, "source: ")
}

func TestOffsetsUndo_ReadsOnlyWhatIsThere(t *testing.T) {
	t.Parallel()
	w := fakeOffsetsWorld(t)
	out, _ := w.lockstep(0, "undo", "--link", "dr", "--list", "-o", "json") // the link never ran: no state topic
	mustContain(t, out, `"changes": []`)
	for _, args := range [][]string{{"undo", "--link", "dr"}, {"undo", "--link", "dr", "x", "--list"}, {"undo", "x"}} {
		w.lockstep(2, append(args, "--yes")...)
	}
}

// A process that dies after it kept the old positions, and before it wrote, leaves a change that leads to where everything
// is anyway.
func TestOffsetsUndo_OfWhatWasOnlyKept(t *testing.T) {
	t.Parallel()
	w := fakeOffsetsWorld(t)
	w.commit(w.dst, "billing", "orders", 5, -1, 7)
	dst, err := kafka.Dial(config.Cluster{Name: "backup", Brokers: w.dst.Brokers()}, kafka.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(dst.Close)
	m := &mover{link: "dr", cluster: dst, dst: dst, does: "reset --to-earliest"}
	m.targets = func(ctx context.Context) ([]reset.Target, checkpoint.Picture, error) {
		topics := []reset.Topic{{Name: "orders"}}
		return resetTargets(ctx, dst, &offsetsFlags{groups: []string{"billing"}}, topics, reset.Spec{Kind: reset.ToEarliest})
	}
	if _, err := m.look(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := m.keep(t.Context(), m.plan.Moves); err != nil {
		t.Fatal(err)
	}
	_, plan := w.lockstep(0, "undo", "--link", "dr", m.id, "--yes")
	mustContain(t, plan, "0 positions to move, 3 unchanged")
	w.wantPositions(w.dst, "billing", "orders/0=5:m5 orders/2=7:m7")
}

// Names that differ on both sides are paired.
func TestOffsetsList_RenamedTopicsAndGroups(t *testing.T) {
	t.Parallel()
	w := fakeOffsetsWorld(t)
	w.write("lockstep.yaml", fmt.Sprintf("clusters:\n  primary: {brokers: [%q]}\n  backup: {brokers: [%q]}\nlinks:\n  - {name: dr, source: primary, target: backup, "+
		"topics: {include: [orders], rename: \"dr.{topic}.copy\"}, groups: {rename: \"dr-{group}\"}}\n", w.src.Brokers()[0], w.dst.Brokers()[0]))
	kafkatest.Topic(t, w.dst, kafkatest.TopicOptions{Name: "dr.orders.copy", Partitions: 3})
	w.produce(w.dst, "dr.orders.copy")
	w.commit(w.src, "billing", "orders", 4)
	w.commit(w.dst, "dr-billing", "dr.orders.copy", 6)
	want := "group,topic,partition,side,start,stable_end,end,position,lag,metadata\nbilling,orders,0,source,0,10,10,4,6,m4\n" +
		"dr-billing,dr.orders.copy,0,target,0,10,10,6,4,m6\n"
	for _, args := range [][]string{{"--side", "source", "--group", "billing"}, {"--group", "dr-billing"}, {"--group", "dr-billing", "--topic", "dr.orders.copy:0"}} {
		if out, _ := w.lockstep(0, append([]string{"list", "--link", "dr", "-o", "csv"}, args...)...); out != want {
			t.Errorf("%q: got\n%s\nwant\n%s", args, out, want)
		}
	}
}

func TestOffsetsReset_OnTheSource(t *testing.T) {
	t.Parallel()
	w := fakeOffsetsWorld(t)
	w.commit(w.src, "billing", "orders", 5)
	w.commit(w.dst, "billing", "orders", 6)
	out, _ := w.lockstep(0, "reset", "--link", "dr", "--side", "source", "--group", "billing", "--all-topics", "--shift-by", "2", "--yes")
	w.wantPositions(w.src, "billing", "orders/0=7")
	_, plan := w.lockstep(0, "undo", "--link", "dr", undoID(t, out), "--yes")
	mustContain(t, plan, "on cluster primary")
	w.wantPositions(w.src, "billing", "orders/0=5:m5")
	w.wantPositions(w.dst, "billing", "orders/0=6:m6")
}

func TestOffsetsExport_ImportBringsBack(t *testing.T) {
	t.Parallel()
	w := fakeOffsetsWorld(t)
	groups := []string{"g1", "g,2", `g"3`}
	for i, g := range groups {
		w.commit(w.dst, g, "orders", int64(i), 5, 10)
	}
	for _, form := range []string{"csv", "json"} {
		text, _ := w.lockstep(0, "export", "--link", "dr", "--all-groups", "-o", form)
		file := w.write("positions."+form, text)
		for _, g := range groups {
			w.commit(w.dst, g, "orders", 1, 1, 1)
			deleteOffset(t, w.dst, g, "orders", 2)
		}
		out, _ := w.lockstep(0, "import", "--link", "dr", file, "--yes")
		mustContain(t, out, "written 9, verified 9")
		for i, g := range groups {
			want := fmt.Sprintf("orders/0=%d:m%d orders/1=5:m5 orders/2=10:m10", i, i)
			if form == "csv" { // no place for metadata
				want = fmt.Sprintf("orders/0=%d orders/1=5 orders/2=10", i)
				if i == 1 { // where the offset stays, the metadata does
					want = "orders/0=1:m1 orders/1=5 orders/2=10"
				}
			}
			w.wantPositions(w.dst, g, want)
			w.commit(w.dst, g, "orders", int64(i), 5, 10)
		}
		again, _ := w.lockstep(0, "export", "--link", "dr", "--all-groups", "-o", form)
		if again != text {
			t.Errorf("%s: exported\n%s\nand after the import\n%s", form, text, again)
		}
	}
	out, errs := w.lockstep(exitFailed, "export", "--link", "dr", "--group", "g1", "--group", "g9", "-o", "csv")
	if mustContain(t, errs, `"g9"`); out != "" {
		t.Errorf("exported without a group that was named: %q", out)
	}
	one, _ := w.lockstep(0, "export", "--link", "dr", "--group", "g,2", "-o", "csv")
	if one != "orders,0,1\norders,1,5\norders,2,10\n" {
		t.Errorf("one group: %q", one)
	}
}

func TestOffsetsImport_ErrorsWriteNothing(t *testing.T) {
	t.Parallel()
	w := fakeOffsetsWorld(t)
	w.commit(w.dst, "g", "orders", 5)
	for _, c := range []struct {
		code       int
		text, says string
		args       []string
	}{
		{3, "g,orders,0,1\ng,orders,7,1\ng,gone,0,1\n", "line 2: cluster backup has no partition orders/7\nline 3: cluster backup has no partition gone/0", nil},
		{2, "orders,0,1\n", "--group", nil},
		{2, "g,orders,0,1\ng,orders,0,2\n", "line 2", nil},
		{2, "\nGROUP           COORDINATOR (ID)          ASSIGNMENT-STRATEGY  STATE                #MEMBERS\n", "--describe --state", nil},
		{2, "g,orders,0,1\n", "one --group", []string{"--group", "g", "--group", "h"}},
	} {
		_, errs := w.lockstep(c.code, append([]string{"import", "--link", "dr", w.write("f", c.text), "--yes"}, c.args...)...)
		mustContain(t, errs, c.says)
		w.wantPositions(w.dst, "g", "orders/0=5:m5")
	}
	_, errs := w.lockstep(2, "import", "--link", "dr", filepath.Join(w.dir, "absent"), "--yes")
	mustContain(t, errs, "absent: no such file")
}

func TestOffsetsList_BothSides(t *testing.T) {
	t.Parallel()
	w := fakeOffsetsWorld(t)
	w.commit(w.src, "billing", "orders", 4)
	w.commit(w.dst, "billing", "orders", 6)
	out, _ := w.lockstep(0, "list", "--link", "dr", "--group", "billing")
	want := `GROUP    TOPIC   PARTITION  SIDE    START  STABLE END  END  POSITION  LAG  METADATA
billing  orders  0          source  0      10          10   4         6    "m4"
billing  orders  0          target  0      10          10   6         4    "m6"
`
	if out != want {
		t.Errorf("got\n%s\nwant\n%s", out, want)
	}
	out, _ = w.lockstep(0, "list", "--link", "dr", "-o", "csv")
	want = "topic,partition,side,start,stable_end,end\norders,0,source,0,10,10\norders,0,target,0,10,10\norders,1,source,0,10,10\n" +
		"orders,1,target,0,10,10\norders,2,source,0,10,10\norders,2,target,0,10,10\n"
	if out != want {
		t.Errorf("got\n%s\nwant\n%s", out, want)
	}
}

// A column that would be empty does not make the table wider than a terminal; CSV keeps its columns.
func TestOffsetsList_WithoutMetadata(t *testing.T) {
	t.Parallel()
	ps := []sidePart{{Group: "billing", Topic: "orders", Side: sideSource, Start: ptr(int64(0)), StableEnd: ptr(int64(10)), End: ptr(int64(10)), Position: ptr(int64(4)), Lag: ptr(int64(6)), Metadata: ptr("")}}
	for output, want := range map[string]string{"table": "LAG", "csv": "METADATA"} {
		tab := (&app{output: output}).sidesTable(ps, true)
		if last := len(tab.head) - 1; tab.head[last] != want || len(tab.rows[0]) != len(tab.head) {
			t.Errorf("%s: %q, %q", output, tab.head, tab.rows)
		}
	}
}
