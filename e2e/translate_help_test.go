package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"lockstep/api"
)

// translate asks the running service.
func (s *service) translate(reverse bool, topic string, partition int32, offsets ...int64) []api.Offset {
	s.t.Helper()
	req := api.TranslateRequest{Reverse: reverse}
	for _, o := range offsets {
		req.Offsets = append(req.Offsets, api.Position{Topic: topic, Partition: partition, Offset: o})
	}
	got, err := s.client.Translate(s.t.Context(), s.link(), req)
	if err != nil {
		s.t.Fatal(err)
	}
	if len(got) != len(offsets) {
		s.t.Fatalf("%d answers to %d offsets", len(got), len(offsets))
	}
	return got
}

// shortly is an answer in words: target offset, state, and how far away.
func shortly(o api.Offset) string {
	text := offset(o.TargetOffset) + " " + o.State
	if o.NeverCopied+o.Ahead != 0 {
		text += fmt.Sprint(" ", o.NeverCopied+o.Ahead)
	}
	return text
}

// translateAll asks the command line, which reads the target alone when no service answers, about every offset from 0 to
// below upTo of each partition.
func (s *service) translateAll(reverse bool, upTo ends) map[string][]api.Offset {
	s.t.Helper()
	var lines strings.Builder
	for topic, es := range upTo {
		for p, end := range es {
			for o := range end {
				fmt.Fprintf(&lines, "%s,%d,%d\n", topic, p, o)
			}
		}
	}
	args := []string{"translate", "--link", s.link(), "--stdin", "-o", "json", "-c", s.file}
	if reverse {
		args = append(args, "--reverse")
	}
	r := lockstepReading(s.t, lines.String(), args...).want(s.t, 0)
	out := make(map[string][]api.Offset)
	for _, o := range decodeOffsets(s.t, r.stdout) {
		key := laneKey(o.Topic, o.Partition)
		out[key] = append(out[key], o)
	}
	for topic, es := range upTo {
		for p, end := range es {
			if n := len(out[laneKey(topic, int32(p))]); int64(n) != end {
				s.t.Fatalf("%d answers to %d offsets of %s/%d", n, end, topic, p)
			}
		}
	}
	return out
}

func decodeOffsets(t testing.TB, text string) []api.Offset {
	t.Helper()
	var out api.Offsets
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		t.Fatalf("read %q: %v", text, err)
	}
	if out.Schema != api.Schema {
		t.Errorf("schema %d", out.Schema)
	}
	return out.Offsets
}
