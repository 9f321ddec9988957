package reset

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"lockstep/checkpoint"
	"lockstep/internal/kafkatest"
)

func pos(group, topic string, partition int32, off int64) Position {
	return Position{Group: group, Key: checkpoint.Key{Topic: topic, Partition: partition}, Offset: off}
}

// world are the positions that toolWorld makes.
func world() (out []Position) {
	for i, g := range []string{"billing", "g,2", `g"3`, "my group"} {
		i := int64(i)
		out = append(out, pos(g, "orders", 0, 10+i), pos(g, "orders", 2, 20+i), pos(g, "payments.v2", 0, i))
	}
	return out
}

func sorted(ps []Position) []Position {
	for i := range ps {
		ps[i].Line = 0
	}
	Sort(ps)
	return ps
}

func fixture(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name+".txt"))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestParse_WhatTheToolPrints(t *testing.T) {
	t.Parallel()
	all := sorted(world())
	live := sorted(append(world(), pos("live", "orders", 0, 1)))
	for name, want := range map[string][]Position{
		"describe": live, "describe-verbose": live, "export-several": all, "export-one": sorted(world()[:3]),
	} {
		for _, version := range kafkatest.Versions() {
			group := ""
			if name == "export-one" {
				group = "billing"
			}
			got, err := Parse(fixture(t, name+"-"+version), group)
			if err != nil {
				t.Errorf("%s of %s: %v", name, version, err)
			} else if d := cmp.Diff(want, sorted(got)); d != "" {
				t.Errorf("%s of %s (-want +got):\n%s", name, version, d)
			}
		}
	}
}

func TestParse_OneGroupOfSeveral(t *testing.T) {
	t.Parallel()
	got, err := Parse(fixture(t, "describe-"+kafkatest.Kafka4), `g"3`)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(sorted(world()[6:9]), sorted(got)); d != "" {
		t.Error(d)
	}
	if _, err := Parse(fixture(t, "describe-"+kafkatest.Kafka4), "nobody"); err == nil || !strings.Contains(err.Error(), `no position of group "nobody"`) {
		t.Errorf("a group that is not in it: %v", err)
	}
}

func TestParse_RefusesStateAndMembers(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"state", "members"} {
		for _, version := range kafkatest.Versions() {
			_, err := Parse(fixture(t, "describe-"+kind+"-"+version), "")
			if !errors.Is(err, ErrNotOffsets) || !strings.Contains(err.Error(), "--describe --"+kind) {
				t.Errorf("%s of %s: %v", kind, version, err)
			}
		}
	}
}

func TestParse_Shapes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, text, group string
		want              []Position
	}{
		{"three columns", "orders,0,5\norders,1,6\n", "g", []Position{pos("g", "orders", 0, 5), pos("g", "orders", 1, 6)}},
		{"four columns", "g,orders,0,5\nh,orders,0,6", "", []Position{pos("g", "orders", 0, 5), pos("h", "orders", 0, 6)}},
		{"four columns, one group", "g,orders,0,5\nh,orders,0,6", "h", []Position{pos("h", "orders", 0, 6)}},
		{"line ends of Windows", "g,orders,0,5\r\n\r\nh,orders,0,6\r\n", "", []Position{pos("g", "orders", 0, 5), pos("h", "orders", 0, 6)}},
		{"byte order mark", "\xef\xbb\xbforders,0,5\n", "g", []Position{pos("g", "orders", 0, 5)}},
		{"quoted", "\"g,2\",orders,0,5\n\"g\"\"3\",\"orders\",0,6\n", "", []Position{pos("g,2", "orders", 0, 5), pos(`g"3`, "orders", 0, 6)}},
		{"our header", "group,topic,partition,offset\ng,orders,0,5\n", "", []Position{pos("g", "orders", 0, 5)}},
		{"our short header", "topic,partition,offset\norders,0,5\n", "g", []Position{pos("g", "orders", 0, 5)}},
		{"said twice", "orders,0,5\norders,0,5\n", "g", []Position{pos("g", "orders", 0, 5)}},
		{"a topic called topic", "topic,0,5\n", "g", []Position{pos("g", "topic", 0, 5)}},
		{"describe with both outputs", "\nConsumer group 'a b' has no active members.\n\nGROUP           TOPIC           PARTITION  CURRENT-OFFSET  LOG-END-OFFSET  LAG\n" +
			"a b             orders          0          7               9               2\n", "", []Position{pos("a b", "orders", 0, 7)}},
		{"describe, a wide group", "GROUP                  TOPIC   PARTITION  CURRENT-OFFSET\n\U0001f600 grüne rechnungen    orders  0          7\n", "",
			[]Position{pos("\U0001f600 grüne rechnungen", "orders", 0, 7)}},
	} {
		got, err := Parse([]byte(c.text), c.group)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
		} else if d := cmp.Diff(c.want, got, cmpopts.IgnoreFields(Position{}, "Line")); d != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, d)
		}
	}
}

func TestParse_ErrorsNameTheLine(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"orders,0,5\n":                               "--group",
		"g,orders,0,5\norders,0,5\n":                 "line 2: 3 columns",
		"g,orders,0,5\ng,orders,x,5\n":               `line 2: partition "x"`,
		"g,orders,0,5\n\ng,orders,0,-1\n":            `line 3: offset "-1"`,
		"g,orders,0,5\ng,orders,4294967296,5\n":      `line 2: partition "4294967296"`,
		"g,orders,0,5\ng,orders,0,6\n":               `line 2: orders/0 of group "g" is there twice, at 6 and at 5 (line 1)`,
		"g,orders,0,5\n\"g,orders,0,5\n":             "line 2",
		"g,orders,0,5\ngroup,topic,partition,offset": `line 2: partition "partition"`,
		"GROUP,TOPIC,PARTITION,OFFSET\n":             "line 1: partition",
		"g,or ders,0,5":                              `line 1: "or ders" is no name of a topic`,
		"hello":                                      "line 1: 1 columns",
		",orders,0,5":                                "line 1: the group has no name",
		`{"schema": 1, "positions": [{"group": "", "topic": "o", "partition": 0, "offset": 1}]}`: "the group has no name",
		"": "no positions",
		"GROUP TOPIC PARTITION CURRENT-OFFSET\n\n":                                                  "no positions",
		"GROUP  TOPIC  LAG\n":                                                                       "line 1: the header",
		"GROUP  TOPIC  PARTITION  CURRENT-OFFSET\ng      o      0\n":                                "line 2: \"g      o      0\" has fewer columns",
		"GROUP  TOPIC  PARTITION  CURRENT-OFFSET\nlonggroup o 0 5\n":                                "does not fit under its header",
		"GROUP  TOPIC  PARTITION  CURRENT-OFFSET\ng      o      0          many\n":                  `line 2: offset "many"`,
		"{\"schema\": 1,\n \"positions\": [}":                                                       "line 2: invalid character",
		`{"schema": 2, "positions": []}`:                                                            "another kind",
		`{"offsets": []}`:                                                                           "another kind",
		`{"schema": 1, "positions": [{"group": "g", "topic": "o", "partition": 0}]}`:                "positions[0]: want group, topic, partition and offset",
		`{"schema": 1, "positions": [{"group": "g", "topic": "o", "partition": 0, "offset": -1}]}`:  "from 0 on",
		`{"schema": 1, "positions": [{"group": "g", "topic": "o", "partition": 0, "offset": "1"}]}`: "positions[0]",
		`{"schema": 1, "positions": [{"group": "g", "topic": "o", "partition": 0, "offsets": 1}]}`:  "unknown field",
		`{"schema": 1, "positions": []}{}`:                                                          "something follows",
	} {
		if _, err := Parse([]byte(text), ""); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want an error with %q", text, err, want)
		}
	}
}

func TestWrite_RoundTrip(t *testing.T) {
	t.Parallel()
	all := world()
	note, none := "note, \"quoted\"\nsecond line", ""
	for i := range all {
		all[i].Metadata = &none
	}
	all[0].Metadata = &note
	var js, several, one bytes.Buffer
	for _, err := range []error{WriteJSON(&js, all), WriteCSV(&several, all, false), WriteCSV(&one, all[3:6], true)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	noMeta := cmpopts.IgnoreFields(Position{}, "Line", "Metadata")
	noLine := cmpopts.IgnoreFields(Position{}, "Line")
	for _, c := range []struct {
		text  []byte
		group string
		want  []Position
		opt   cmp.Option
	}{
		{js.Bytes(), "", all, noLine},
		{several.Bytes(), "", all, noMeta},
		{one.Bytes(), "g,2", all[3:6], noMeta},
	} {
		got, err := Parse(c.text, c.group)
		if err != nil {
			t.Fatalf("%v\n%s", err, c.text)
		}
		if d := cmp.Diff(c.want, got, c.opt); d != "" {
			t.Errorf("%s\n(-want +got):\n%s", c.text, d)
		}
	}
	if got := one.String(); got != "orders,0,11\norders,2,21\npayments.v2,0,1\n" {
		t.Errorf("one group: %q", got)
	}
	if !strings.Contains(several.String(), "\"g,2\",orders,0,11\n\"g\"\"3\"") && !strings.Contains(several.String(), "\"g\"\"3\",orders,0,12\n") {
		t.Errorf("several groups: %s", several.String())
	}
	if err := WriteCSV(&one, []Position{pos("a\rb", "orders", 0, 1)}, false); err == nil {
		t.Error("a line break in a group's name was written as CSV")
	}
	one.Reset()
	if err := WriteCSV(&one, []Position{pos("last", "orders", 0, 1)}, false); err != nil || one.String() != "last,orders,0,1\n" {
		t.Errorf("the only one of all groups lost its name: %q, %v", one.String(), err)
	}
}

// FuzzParse holds that whatever is read can be written and read again unchanged, in each form.
func FuzzParse(f *testing.F) {
	names, err := filepath.Glob("testdata/*.txt")
	if err != nil {
		f.Fatal(err)
	}
	for _, n := range names {
		b, err := os.ReadFile(n)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b, "")
		f.Add(b, "billing")
	}
	f.Add([]byte(`{"schema": 1, "positions": [{"group": "g", "topic": "o", "partition": 0, "offset": 1, "metadata": "m"}]}`), "")
	f.Fuzz(func(t *testing.T, file []byte, group string) {
		ps, err := Parse(file, group)
		if err != nil {
			return
		}
		for _, p := range ps {
			if p.Offset < 0 || p.Partition < 0 || p.Topic == "" {
				t.Fatalf("read %+v", p)
			}
		}
		same, valid := true, true
		for _, p := range ps {
			same = same && p.Group == ps[0].Group
			valid = valid && utf8.ValidString(p.Group+text(p.Metadata))
		}
		only := ""
		if same {
			only = ps[0].Group
		}
		var js, csv bytes.Buffer
		if err := WriteJSON(&js, ps); err != nil {
			t.Fatal(err)
		}
		for i := range ps {
			m := text(ps[i].Metadata)
			ps[i].Metadata = &m
		}
		if valid { // JSON holds nothing else; neither do names in Kafka
			mustAgain(t, ps, js.Bytes(), only)
		}
		if WriteCSV(&csv, ps, same) == nil {
			for i := range ps {
				ps[i].Metadata = nil
			}
			mustAgain(t, ps, csv.Bytes(), only)
		}
	})
}

func mustAgain(t *testing.T, want []Position, text []byte, group string) {
	t.Helper()
	got, err := Parse(text, group)
	if err != nil {
		t.Fatalf("%v\n%q", err, text)
	}
	if d := cmp.Diff(want, got, cmpopts.IgnoreFields(Position{}, "Line")); d != "" {
		t.Fatalf("%q (-want +got):\n%s", text, d)
	}
}
