package kafka

import (
	"errors"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
)

func TestWays_LeastBusyAndNoMoreThanNeeded(t *testing.T) {
	t.Parallel()
	first, err := kgo.NewClient()
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	w := &ways{all: []*way{{cl: first}}}
	dial := func() (*kgo.Client, error) { return kgo.NewClient() }
	for range 5 { // one after the other
		o := w.take(dial)
		if o.cl != first {
			t.Error("a second client for one request at a time")
		}
		w.give(o)
	}
	var taken []*way
	for range 3 * maxWays {
		taken = append(taken, w.take(dial))
	}
	if len(w.all) != maxWays {
		t.Errorf("%d clients, want %d", len(w.all), maxWays)
	}
	for _, o := range w.all {
		if o.busy != 3 {
			t.Errorf("a client has %d requests of %d", o.busy, len(taken))
		}
	}
	for _, o := range taken {
		w.give(o)
	}
	w.close()
	w = &ways{all: []*way{{cl: first, busy: 1}}}
	if o := w.take(func() (*kgo.Client, error) { return nil, errors.New("refused") }); o.cl != first {
		t.Error("without a further client the first one is not used")
	}
}
