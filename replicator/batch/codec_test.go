package batch

import (
	"sync"
	"testing"

	"go.uber.org/goleak"
)

func TestNewCodecs_LeavesNothingRunning(t *testing.T) {
	before := goleak.IgnoreCurrent()
	newCodecs(t)
	goleak.VerifyNone(t, before)
}

func TestNewCodecs_RefusesNoRoom(t *testing.T) {
	t.Parallel()
	for _, limit := range []int32{0, -1} {
		if _, err := NewCodecs(limit); err == nil {
			t.Errorf("limit %d is taken", limit)
		}
	}
}

func TestCodecs_ManyGoroutines(t *testing.T) {
	t.Parallel()
	c := newCodecs(t)
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			codec := int8(g % 5)
			rs := []Record{{Offset: int64(g), Value: noise(2000, uint64(g))}, {Offset: int64(g) + 1, Value: text(500 * g)}}
			for range 20 {
				built, err := c.Encode(rs, codec, 0)
				if err != nil {
					t.Error(err)
					return
				}
				if d := diff(rs, reread(t, c, built, codec, 0)); d != "" {
					t.Error(d)
				}
			}
		})
	}
	wg.Wait()
}
