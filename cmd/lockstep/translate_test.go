package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lockstep/api"
	"lockstep/checkpoint"
	"lockstep/checkpoint/reset"
)

func TestReadPositions(t *testing.T) {
	t.Parallel()
	got, err := readPositions(strings.NewReader(byteOrderMark + "orders,0,12\nstrange topic, 3, 9223372036854775807\n"))
	want := []api.Position{{Topic: "orders", Offset: 12}, {Topic: "strange topic", Partition: 3, Offset: 1<<63 - 1}}
	if err != nil || len(got) != 2 || got[0] != want[0] || got[1] != want[1] {
		t.Fatalf("%v, %v", got, err)
	}
	for text, says := range map[string]string{
		"orders,0\n":             "line 1",
		"orders,0,1\norders,x,1": `line 2: partition "x"`,
		"orders,0,-1\n":          `line 1: offset "-1"`,
		"orders,0,1e3\n":         `offset "1e3"`,
		"orders,99999999999,1\n": `partition "99999999999"`,
		"\"orders,0,1\n":         "line",
	} {
		if _, err := readPositions(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v, want %q in it", text, err, says)
		}
	}
}

// groupAnswer is an answer of a service about a group: one position of each kind.
func groupAnswer() []api.Offset {
	looked := time.Date(2026, 12, 1, 9, 30, 0, 0, time.UTC)
	of := func(topic string, partition int32, src, dst *int64, state string) api.Offset {
		return api.Offset{Link: "dr", Topic: topic, Partition: partition, SourceOffset: src, TargetTopic: "copy." + topic, TargetOffset: dst, State: state,
			Group: "billing", TargetGroup: "dr-billing", PositionFrom: api.FromService, AsOf: &looked}
	}
	early, late := of("orders", 10, new(int64(40)), new(int64(7)), api.OffsetBeforeStart), of("payments", 0, new(int64(99)), new(int64(9)), api.OffsetAhead)
	early.NeverCopied, late.Ahead = 600, 1
	return []api.Offset{of("orders", 2, new(int64(12)), new(int64(11)), api.OffsetExact), early, of("orders", 11, new(int64(5)), nil, api.OffsetUnknown), late,
		of("elsewhere", 0, new(int64(1)), nil, api.OffsetNotCopied)}
}

// printed is what a form of output gives.
func printed(t *testing.T, output string, q translateQuery, os []api.Offset) (stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	a := &app{stdout: &out, stderr: &errs, output: output}
	if err := a.printTranslated(newTranslation(q, os)); err != nil {
		t.Fatal(err)
	}
	return out.String(), errs.String()
}

func TestTranslate_GroupFormats(t *testing.T) {
	t.Parallel()
	one := translateQuery{link: "dr", groups: []string{"billing"}}
	for _, c := range []struct {
		output string
		q      translateQuery
		want   string
	}{
		{"csv", one, "copy.orders,2,11\ncopy.orders,10,7\ncopy.payments,0,9\n"},
		{"csv", translateQuery{link: "dr", all: true}, "dr-billing,copy.orders,2,11\ndr-billing,copy.orders,10,7\ndr-billing,copy.payments,0,9\n"},
		{"csv", translateQuery{link: "dr", all: true, reverse: true}, "billing,orders,2,12\nbilling,orders,10,40\nbilling,payments,0,99\n"},
		{formatSpark, one, `{"copy.orders":{"10":7,"2":11},"copy.payments":{"0":9}}` + "\n"},
		{formatFlinkSQL, one, "\n-- WITH options of the table whose 'topic' is 'copy.orders'\n" +
			"'scan.startup.mode' = 'specific-offsets',\n'scan.startup.specific-offsets' = 'partition:2,offset:11;partition:10,offset:7'\n" +
			"\n-- WITH options of the table whose 'topic' is 'copy.payments'\n" +
			"'scan.startup.mode' = 'specific-offsets',\n'scan.startup.specific-offsets' = 'partition:0,offset:9'\n"},
		{formatFlink, one, "Map<TopicPartition, Long> startingOffsets = new HashMap<>();\n" +
			"startingOffsets.put(new TopicPartition(\"copy.orders\", 2), 11L);\n" +
			"startingOffsets.put(new TopicPartition(\"copy.orders\", 10), 7L);\n" +
			"startingOffsets.put(new TopicPartition(\"copy.payments\", 0), 9L);\n" +
			"kafkaSourceBuilder.setStartingOffsets(OffsetsInitializer.offsets(startingOffsets));\n"},
	} {
		out, errs := printed(t, c.output, c.q, groupAnswer())
		code := out
		for strings.HasPrefix(code, "//") || strings.HasPrefix(code, "-- ") {
			_, code, _ = strings.Cut(code, "\n")
		}
		if diff := cmp.Diff(c.want, code); diff != "" {
			t.Errorf("%s: %s", c.output, diff)
		}
		told := []string{"as of 2026-12-01T09:30:00Z", "before_start: group billing: orders/10 at", "600 offsets", "ahead: group billing: payments/0 at", "no answer, left out: group billing: orders/11 at",
			"not copied by the link, left out: group billing: elsewhere/0 at"}
		for _, says := range told {
			if !strings.Contains(errs, says) {
				t.Errorf("%s: standard error says %q, want %q in it", c.output, errs, says)
			}
			if strings.HasPrefix(c.output, "flink") && !strings.Contains(out, says) {
				t.Errorf("%s: %q, want %q in a comment", c.output, out, says)
			}
		}
		if isJobFormat(c.output) && !strings.Contains(out+errs, "checkpoint") {
			t.Errorf("%s does not speak of checkpoints", c.output)
		}
	}
}

// A name of a group may hold anything; it must not leave the comment it stands in.
// Names of the target are shown where they differ.
func TestTranslate_GroupTableFits80Columns(t *testing.T) {
	t.Parallel()
	os := groupAnswer()
	os[0].Group, os[0].TargetGroup, os[0].TargetTopic = strings.Repeat("long-", 20), strings.Repeat("long-", 20), os[0].Topic
	out, _ := printed(t, "table", translateQuery{link: "dr", all: true}, os)
	for line := range strings.Lines(out) {
		if len(line) > 81 {
			t.Errorf("line of %d characters: %s", len(line), line)
		}
	}
	for _, want := range []string{"-> dr-billing", "-> copy.payments"} {
		if !strings.Contains(out, want) {
			t.Errorf("lacks %q:\n%s", want, out)
		}
	}
	if strings.Contains(out, "-> copy.orders,") || strings.Contains(out, "-> long") {
		t.Errorf("shows a name twice:\n%s", out)
	}
}

func TestTranslate_NamesStayInTheirComments(t *testing.T) {
	t.Parallel()
	os := groupAnswer()
	for i := range os {
		os[i].Group = "a\n\\u000a\r\u2028;--"
	}
	for output, mark := range map[string]string{formatFlink: "//", formatFlinkSQL: "--"} {
		out, _ := printed(t, output, translateQuery{link: "d\nr", groups: []string{os[0].Group}}, os)
		plain, _ := printed(t, output, translateQuery{link: "dr", groups: []string{"billing"}}, groupAnswer())
		if strings.Count(out, "\n") != strings.Count(plain, "\n") || strings.Count(out, mark) < strings.Count(plain, mark) {
			t.Errorf("%s: %s", output, out)
		}
		if strings.Contains(strings.ReplaceAll(out, `\\`, ""), `\u000a`) {
			t.Errorf("%s: Java reads a line break in %s", output, out)
		}
	}
	var out bytes.Buffer
	if err := reset.WriteCSV(&out, []reset.Position{{Group: `a,"b`, Key: checkpoint.Key{Topic: "orders"}, Offset: 7}}, false); err != nil || out.String() != "\"a,\"\"b\",orders,0,7\n" {
		t.Errorf("CSV is %q, %v", out.String(), err)
	}
	if err := reset.WriteCSV(&out, []reset.Position{{Group: "a\nb", Key: checkpoint.Key{Topic: "orders"}, Offset: 7}}, false); err == nil {
		t.Error("a name with a line break was written for a tool that reads line by line")
	}
}

func TestTranslate_Quoting(t *testing.T) {
	t.Parallel()
	if got, want := javaString("a\"b\\\n\x01"), `"a\"b\\\012\001"`; got != want {
		t.Errorf("Java string %s, want %s", got, want)
	}
	if got, want := sqlString("o'r"), "'o''r'"; got != want {
		t.Errorf("SQL string %s, want %s", got, want)
	}
}

// What has no answer shows in the exit code.
func TestTranslate_Unanswered(t *testing.T) {
	t.Parallel()
	position := func(group, state string) api.Offset { return api.Offset{Group: group, State: state} }
	for name, c := range map[string]struct {
		groups []string
		os     []api.Offset
		code   int
	}{
		"all answered":                {nil, []api.Offset{position("", api.OffsetExact), position("", api.OffsetAhead)}, exitOK},
		"nothing asked":               {nil, nil, exitOK},
		"some unknown":                {nil, []api.Offset{position("", api.OffsetExact), position("", api.OffsetUnknown)}, exitPartly},
		"all unknown":                 {nil, []api.Offset{position("", api.OffsetUnknown)}, exitFailed},
		"a group elsewhere too":       {[]string{"a"}, []api.Offset{position("a", api.OffsetExact), position("a", api.OffsetNotCopied)}, exitOK},
		"a group elsewhere":           {[]string{"a"}, []api.Offset{position("a", api.OffsetNotCopied)}, exitFailed},
		"a group without positions":   {[]string{"a"}, nil, exitFailed},
		"one of two without any":      {[]string{"a", "b"}, []api.Offset{position("b", api.OffsetExact)}, exitPartly},
		"no group at all of all ones": {nil, nil, exitOK},
	} {
		err := newTranslation(translateQuery{groups: c.groups}, c.os).unanswered()
		code := exitOK
		if err != nil {
			code = exitCode(err)
		}
		if code != c.code {
			t.Errorf("%s: exit code %d (%v), want %d", name, code, err, c.code)
		}
	}
}

func TestTranslate_OnePlaceForEachPartition(t *testing.T) {
	t.Parallel()
	a := &app{stdout: &bytes.Buffer{}, stderr: &bytes.Buffer{}, output: formatSpark}
	twice := []api.Offset{groupAnswer()[0], groupAnswer()[0]}
	if err := a.printTranslated(newTranslation(translateQuery{stdin: true}, twice)); err == nil || exitCode(err) != exitUsage {
		t.Errorf("one partition given twice: %v", err)
	}
}
