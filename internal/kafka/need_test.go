package kafka

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
)

func TestSupports_NamesWhatAnOldBrokerLacks(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		versions *kversion.Versions
		source   string // what is lacking as a source; "" for nothing
		target   string
	}{
		"1.0": {kversion.V1_0_0(), "Fetch up to version 6, not 10", "Produce up to version 5, not 7"},
		"2.0": {kversion.V2_0_0(), "Fetch up to version 8, not 10", "Produce up to version 6, not 7"},
		"2.1": {kversion.V2_1_0(), "", ""},
		"2.8": {kversion.V2_8_0(), "", ""},
		"4.0": {kversion.V4_0_0(), "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cl := dialFake(t, newFake(t, kfake.MaxVersions(c.versions)), Options{})
			for what, want := range map[string]string{"source": c.source, "target": c.target} {
				needs := map[string][]Need{"source": SourceNeeds(), "target": TargetNeeds()}[what]
				err := cl.Supports(t.Context(), needs)
				var old *UnsupportedBrokerError
				if want == "" && err != nil {
					t.Errorf("%s: %v", what, err)
				}
				if want != "" && (!errors.As(err, &old) || !slices.Contains(old.Lacks, want) || !strings.HasPrefix(err.Error(), "UNSUPPORTED_BROKER: broker ")) {
					t.Errorf("%s: %v, want %q in it", what, err, want)
				}
			}
		})
	}
}

func TestLacking(t *testing.T) {
	t.Parallel()
	key := kmsg.Fetch
	known := kmsg.NewPtrFetchRequest().MaxVersion()
	for name, c := range map[string]struct {
		offers map[int16]offer
		lacks  bool
	}{
		"not offered":         {map[int16]offer{}, true},
		"too old":             {map[int16]offer{key.Int16(): {0, 9}}, true},
		"just enough":         {map[int16]offer{key.Int16(): {0, 10}}, false},
		"newer as well":       {map[int16]offer{key.Int16(): {4, known + 5}}, false},
		"newer versions only": {map[int16]offer{key.Int16(): {known + 1, known + 5}}, true},
	} {
		if got := lacking([]Need{{key, 10}}, c.offers); (len(got) > 0) != c.lacks {
			t.Errorf("%s: %q", name, got)
		}
	}
}
