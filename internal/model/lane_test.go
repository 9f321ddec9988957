package model

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestTopicID_Text(t *testing.T) {
	t.Parallel()
	want := TopicID{1, 2, 0xff}
	b, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	var got TopicID
	if err := json.Unmarshal(b, &got); err != nil || got != want {
		t.Errorf("%s was read as %v, %v", b, got, err)
	}
	for _, bad := range []string{"", "00", strings.Repeat("0", 31), strings.Repeat("0", 33), strings.Repeat("0", 34), strings.Repeat("0", 400), strings.Repeat("x", 32)} {
		if err := got.UnmarshalText([]byte(bad)); err == nil {
			t.Errorf("%q was taken for a topic id", bad)
		}
	}
}
