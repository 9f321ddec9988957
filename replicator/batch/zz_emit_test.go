package batch

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
)

func hx(p []byte) string {
	if p == nil {
		return "null"
	}
	return fmt.Sprintf("%q", fmt.Sprintf("%x", p))
}

func TestEmit(t *testing.T) {
	rng := rand.New(rand.NewPCG(42, 1))
	c := newCodecs(t)
	by := func(max int) []byte {
		switch rng.IntN(4) {
		case 0:
			return nil
		case 1:
			return []byte{}
		}
		n := rng.IntN(max)
		if rng.IntN(2) == 0 {
			return text(n)
		}
		return noise(n, rng.Uint64())
	}
	times := []int64{-1, 0, 1, -5, math.MaxInt64, math.MinInt64, 1_700_000_000_000, 1_700_000_000_000_000_000}
	id := 0
	for i := range 600 {
		var rs []Record
		extreme := i%3 == 0
		for k := range rng.IntN(200) + 1 {
			r := Record{Offset: int64(k), Timestamp: 1_700_000_000_000 + rng.Int64N(100000), Key: by(30), Value: by(3000)}
			if extreme {
				r.Timestamp = times[rng.IntN(len(times))]
			}
			for range rng.IntN(4) {
				r.Headers = append(r.Headers, RecordHeader{Key: []byte(strings.Repeat("h", rng.IntN(4))), Value: by(20)})
			}
			rs = append(rs, r)
		}
		built, err := c.Encode(rs, int8(i%5), int32(rng.IntN(100_000)))
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range built {
			Stamp(b.Bytes, rng.Int64(), int16(rng.IntN(30000)), rng.Int32N(math.MaxInt32))
			os.WriteFile(fmt.Sprintf("/tmp/batchwork/emit/%05d.bin", id), b.Bytes, 0o644)
			var s strings.Builder
			for j, r := range rs[b.Runs[0].Src : b.Runs[0].Src+b.Count()] {
				fmt.Fprintf(&s, "%d %d %s %s", j, r.Timestamp, hx(r.Key), hx(r.Value))
				for _, h := range r.Headers {
					fmt.Fprintf(&s, " %s=%s", hx(h.Key), hx(h.Value))
				}
				s.WriteByte('\n')
			}
			os.WriteFile(fmt.Sprintf("/tmp/batchwork/emit/%05d.txt", id), []byte(s.String()), 0o644)
			id++
		}
	}
	t.Log(id)
}
