package batch

import (
	"bytes"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestStamp_ChangesHeaderOnly(t *testing.T) {
	t.Parallel()
	b := plainBatch()
	b[22] = byte(CodecLZ4) | attrLogAppend | attrTransactional | attrControl | attrDeleteHorizon
	fixCRC(b)
	before := bytes.Clone(b)
	want := mustParse(t, b)

	Stamp(b, 1<<40+7, 321, 1<<31-1)
	got := mustParse(t, b)
	want.BaseOffset, want.LeaderEpoch, want.PID, want.Epoch, want.BaseSeq = 0, -1, 1<<40+7, 321, 1<<31-1
	want.Attrs = int16(CodecLZ4) | attrLogAppend // neither codec nor time may change their meaning
	want.CRC = got.CRC
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if err := VerifyCRC(got, b); err != nil {
		t.Error(err)
	}
	if !bytes.Equal(before[HeaderSize:], b[HeaderSize:]) {
		t.Error("the records changed")
	}
}

func TestStamp_IsRepeatable(t *testing.T) {
	t.Parallel()
	once, twice := plainBatch(), plainBatch()
	Stamp(once, 9, 2, 100)
	for _, seq := range []int32{0, 5, 1<<31 - 1, 100} {
		Stamp(twice, 9, 2, seq)
	}
	if !bytes.Equal(once, twice) {
		t.Error("the last stamp does not stand alone")
	}
}

// The promise behind pass-through: damage from before or after the stamp is still there for the broker to find.
func TestStamp_KeepsDamageVisible(t *testing.T) {
	t.Parallel()
	for at := atLastDelta; at < len(plainBatch()); at++ {
		if at >= atPID && at < atCount {
			continue // overwritten by the stamp
		}
		before, after := plainBatch(), plainBatch()
		before[at] ^= 0x10
		Stamp(before, 9, 2, 100)
		Stamp(after, 9, 2, 100)
		after[at] ^= 0x10
		for name, b := range map[string][]byte{"before": before, "after": after} {
			h := Header{Magic: 2, Length: int32(len(b) - overhead), CRC: uint32(b[17])<<24 | uint32(b[18])<<16 | uint32(b[19])<<8 | uint32(b[20])}
			if err := VerifyCRC(h, b); !errors.Is(err, ErrCorrupt) {
				t.Errorf("bit flipped %s the stamp at %d is not found", name, at)
			}
		}
	}
}

// Parse, Check and Stamp of a batch that passes must neither allocate nor depend on its size.
func TestPassPath_Allocations(t *testing.T) {
	b := plainBatch()
	limits := Limits{MaxBytes: 1 << 20, Now: 2000, BeforeMS: 5000, AfterMS: 5000}
	if n := testing.AllocsPerRun(100, func() {
		h, err := Parse(b)
		if err != nil || !h.Passable(0) {
			t.Fatal(err)
		}
		Stamp(b, 9, 2, 100)
		if err := Check(b, limits); err != nil {
			t.Fatal(err)
		}
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
