package main

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lockstep/api"
	"lockstep/checkpoint"
)

// said is what stands are, in words: group>target topic/partition@next, and who told it.
func said(stands []stand) (out []string) {
	for _, s := range stands {
		text := fmt.Sprintf("%s>%s %s@%d %s", s.group, s.dstGroup, s.key, s.next, s.from)
		if !s.copied {
			text += " elsewhere"
		}
		out = append(out, text)
	}
	return out
}

func orders(p int32) checkpoint.Key { return checkpoint.Key{Topic: "orders", Partition: p} }

func committedAt(offsets map[checkpoint.Key]int64) map[checkpoint.Key]checkpoint.Committed {
	out := make(map[checkpoint.Key]checkpoint.Committed)
	for k, o := range offsets {
		out[k] = checkpoint.Committed{Offset: o}
	}
	return out
}

func toTarget(group string) string { return "to-" + group }

func TestStands_OfAPass(t *testing.T) {
	t.Parallel()
	at := time.Now()
	p := checkpoint.Pass{At: at, Groups: map[string]checkpoint.Group{
		"a": {Name: "a", Offsets: committedAt(map[checkpoint.Key]int64{orders(0): 5, orders(1): 7, {Topic: "other"}: 1})},
	}, Rows: []checkpoint.Row{
		{Group: "a", DstGroup: "to-a", Key: orders(0), Source: 5},
		{Group: "a", DstGroup: "to-a", Key: orders(1), Source: 7},
		{Group: "a", DstGroup: "to-a", Key: orders(2), Source: -1, State: checkpoint.StateUnstable},
		{Group: "a", DstGroup: "to-a", Key: orders(3), Source: -1, State: checkpoint.StateSuspectSource},
		{Group: "b", DstGroup: "to-b", Source: -1, State: checkpoint.StateNoMirroredTopics},
	}, Stale: map[string]time.Time{"b": at.Add(-time.Hour)}}
	for _, c := range []struct {
		req  api.TranslateRequest
		want []string
	}{
		{api.TranslateRequest{Groups: []string{"a", "b", "a"}},
			[]string{"a>to-a orders/0@5 service", "a>to-a orders/1@7 service", "a>to-a orders/2@-1 service", "a>to-a other/0@1 service elsewhere"}},
		{api.TranslateRequest{AllGroups: true}, []string{"a>to-a orders/0@5 service", "a>to-a orders/1@7 service", "a>to-a orders/2@-1 service"}},
		{api.TranslateRequest{Groups: []string{"b"}}, nil},
	} {
		got, err := standsOfPass("dr", p, c.req)
		if diff := cmp.Diff(c.want, said(got)); err != nil || diff != "" {
			t.Errorf("%+v: %v %s", c.req, err, diff)
		}
	}
	var answer *api.Error
	if _, err := standsOfPass("dr", p, api.TranslateRequest{Groups: []string{"a", "c"}}); !errors.As(err, &answer) || answer.Code != api.CodeNotFound {
		t.Errorf("an unknown group: %v", err)
	}
	if _, err := standsOfPass("dr", checkpoint.Pass{Err: errors.New("nobody listens")}, api.TranslateRequest{AllGroups: true}); !errors.As(err, &answer) || answer.Code != api.CodeNotReady {
		t.Errorf("before the first look: %v", err)
	}
}

func TestStands_OfACluster(t *testing.T) {
	t.Parallel()
	now := time.Now()
	copied := checkpoint.Key{Topic: "copy.orders"}
	target := checkpoint.Picture{Groups: map[string]checkpoint.Group{
		"to-a": {Name: "to-a", Offsets: committedAt(map[checkpoint.Key]int64{copied: 5, {Topic: "own"}: 3}), Unstable: map[checkpoint.Key]error{{Topic: "copy.orders", Partition: 1}: errors.New("open")}},
	}, Failed: map[string]error{"to-b": errors.New("no coordinator")}}
	lanes := laneKeys{copied: orders(0), {Topic: "copy.orders", Partition: 1}: orders(1)}
	ask := func(req api.TranslateRequest, names ...string) ([]string, error) {
		req.Reverse = true
		got, err := standsOfPicture("dr", target, req, names, toTarget, lanes, now)
		return said(got), err
	}
	got, err := ask(api.TranslateRequest{Groups: []string{"a"}}, "a")
	want := []string{"a>to-a orders/0@5 cluster", "a>to-a orders/1@-1 cluster", "a>to-a own/0@3 cluster elsewhere"}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v %s", err, diff)
	}
	if got, err = ask(api.TranslateRequest{AllGroups: true}, "a", "gone"); err != nil || len(got) != 2 {
		t.Errorf("all groups, of which one is not on the target: %v, %v", got, err)
	}
	if _, err = ask(api.TranslateRequest{Groups: []string{"b"}}, "b"); err == nil {
		t.Error("a group that cannot be read was answered")
	}
	var answer *api.Error
	if _, err = ask(api.TranslateRequest{Groups: []string{"gone"}}, "gone"); !errors.As(err, &answer) || answer.Code != api.CodeNotFound || !strings.Contains(err.Error(), `"to-gone"`) {
		t.Errorf("a group that is not there: %v", err)
	}
}

func TestStands_OfTheStateTopic(t *testing.T) {
	t.Parallel()
	all := map[string]map[checkpoint.Key]checkpoint.Base{
		"b": {orders(0): {Source: 9}}, "a": {orders(1): {Source: 7, Suspect: &checkpoint.Suspicion{Source: 0}}, orders(0): {Source: 5}},
	}
	got, err := standsOfBases("dr", all, api.TranslateRequest{AllGroups: true}, toTarget)
	want := []string{"a>to-a orders/0@5 state_topic", "a>to-a orders/1@7 state_topic", "b>to-b orders/0@9 state_topic"}
	if diff := cmp.Diff(want, said(got)); err != nil || diff != "" {
		t.Errorf("%v %s", err, diff)
	}
	if _, err := standsOfBases("dr", all, api.TranslateRequest{Groups: []string{"c"}}, toTarget); err == nil {
		t.Error("an unknown group was answered")
	}
}
