package configs

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lockstep/internal/model"
	"lockstep/internal/statelog"
)

func mustPut(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestJournal_CreationThatDied: a topic that was to be created when the process died is ours if it has just what was asked for.
func TestJournal_CreationThatDied(t *testing.T) {
	t.Parallel()
	asked := map[string]string{"retention.ms": "-1", "segment.ms": "5"}
	for name, tc := range map[string]struct {
		theirs map[string]string
		dst    string
		made   bool
	}{
		"as asked for":        {asked, "b", true},
		"other settings":      {map[string]string{"retention.ms": "-1"}, "b", false},
		"further settings":    {map[string]string{"retention.ms": "-1", "segment.ms": "5", "preallocate": "true"}, "b", false},
		"under another name":  {asked, "c", false},
		"no settings at all":  {nil, "b", false},
		"another value of it": {map[string]string{"retention.ms": "-1", "segment.ms": "6"}, "b", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &stateTopic{}
			mustPut(t, newJournal(s, s).Intend(t.Context(), []Creation{{Topic: "a", Dst: "b", Settings: asked, Source: map[string]string{"segment.ms": "5"}}}))
			next := s.replay(t)
			if next.Made("a", model.TopicID{1}) {
				t.Error("made before anybody looked")
			}
			r := next.recordOf("a", tc.dst, model.TopicID{1}, tc.theirs)
			if r.Made != tc.made || (len(r.Written) == 2) != tc.made || r.DstID != (model.TopicID{1}) {
				t.Errorf("record %+v", r)
			}
		})
	}
}

// TestJournal_TopicMadeAgain: nothing of what stands under the name now is lockstep's, and what the source showed is kept.
func TestJournal_TopicMadeAgain(t *testing.T) {
	t.Parallel()
	s := &stateTopic{}
	source := map[string]string{"segment.ms": "5"}
	mustPut(t, newJournal(s, s).Created(t.Context(), []Creation{{Topic: "a", Dst: "b", Settings: source, Source: source, ID: model.TopicID{1}}}))
	next := s.replay(t)
	if r := next.recordOf("a", "b", model.TopicID{1}, source); !r.Made || !next.Made("a", model.TopicID{1}) {
		t.Errorf("record %+v", r)
	}
	r := next.recordOf("a", "b", model.TopicID{2}, source)
	if diff := cmp.Diff(Record{Dst: "b", DstID: model.TopicID{2}, Source: source}, r); diff != "" {
		t.Error(diff)
	}
}

// TestJournal_LateEcho: a record that the view reads late does not take the place of a newer one.
func TestJournal_LateEcho(t *testing.T) {
	t.Parallel()
	s := &stateTopic{}
	j := newJournal(s, s)
	c := Creation{Topic: "a", Dst: "b", Settings: map[string]string{"segment.ms": "5"}, ID: model.TopicID{1}}
	mustPut(t, j.Intend(t.Context(), []Creation{c}))
	mustPut(t, j.Created(t.Context(), []Creation{c}))
	mustPut(t, s.fns[kindTopic](s.entries[0])) // the intent
	if !j.Made("a", model.TopicID{1}) {
		t.Error("the intent was read after the creation was noted, and took its place")
	}
	mustPut(t, s.fns[kindTopic](s.entries[1]))
	if r, _ := j.Of("a"); !r.Made || r.N != 2 {
		t.Errorf("record %+v", r)
	}
}

func TestJournal_NothingShownThatIsNotDurable(t *testing.T) {
	t.Parallel()
	s := &stateTopic{err: errors.New("no quorum")}
	j := newJournal(s, s)
	if err := j.Created(t.Context(), []Creation{{Topic: "a", Dst: "b"}}); !errors.Is(err, s.err) {
		t.Errorf("error %v", err)
	}
	if j.Made("a", model.TopicID{1}) {
		t.Error("shown although it is not stored")
	}
}

// TestJournal_Golden: stored forms are read for ever, and newer ones refused.
func TestJournal_Golden(t *testing.T) {
	t.Parallel()
	read := func(value string) (*Journal, error) {
		s := &stateTopic{}
		j := newJournal(s, s)
		return j, s.fns[kindTopic](statelog.Entry{Key: statelog.Key(kindTopic, "a"), Value: []byte(value)})
	}
	const v1 = `{"v":1,"n":3,"dst":"b","dst_id":"01000000000000000000000000000000","made":true,"intent":null,` +
		`"written":{"preallocate":{"value":null,"was":"true","pending":true},"segment.ms":{"value":"5"}},"source":{"segment.ms":"5"}}`
	j, err := read(v1)
	if err != nil {
		t.Fatal(err)
	}
	r, _ := j.Of("a")
	want := Record{V: 1, N: 3, Dst: "b", DstID: model.TopicID{1}, Made: true, Source: map[string]string{"segment.ms": "5"},
		Written: map[string]Base{"segment.ms": {Value: text("5")}, "preallocate": {Was: text("true"), Pending: true}}}
	if diff := cmp.Diff(want, r); diff != "" {
		t.Error(diff)
	}
	for _, bad := range []string{`{"v":2}`, `{`, `{"v":1,"dst_id":7}`} {
		if _, err := read(bad); err == nil {
			t.Errorf("%s was read", bad)
		}
	}
}
