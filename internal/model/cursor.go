package model

// Cursor is how far a lane came: the next source offset to read, the target offset where the next record will
// stand, and the number of records copied in this term.
type Cursor struct {
	Src   int64 `json:"src"`
	Dst   int64 `json:"dst"`
	Count int64 `json:"count"`
	// SrcEpoch is the leader epoch of the last source batch below Src, -1 when not known. It is only meaningful
	// together with this Src.
	SrcEpoch int32 `json:"src_epoch"`
}

// Seq returns the cursor's count as a record batch's 31-bit base sequence.
func (c Cursor) Seq() int32 { return Seq(c.Count) }

// seqSpace is the number of distinct sequences: after 2147483647 comes 0.
const seqSpace = int64(1) << 31

// Seq cuts a count to the 31 bits that a batch header carries.
func Seq(count int64) int32 { return int32(count & (seqSpace - 1)) }

// Unwrap returns the count nearest to near whose sequence is seq. It is exact while the two are less than 2^30
// records apart.
func Unwrap(seq int32, near int64) int64 {
	d := (int64(seq) - near) & (seqSpace - 1)
	if d >= seqSpace/2 {
		d -= seqSpace
	}
	return near + d
}

// Term is a link's right to write. Terms are compared by N, never by Epoch: a coordinator that forgot the
// transactional id hands out another producer id whose epoch starts again at 0.
type Term struct {
	N     uint64 `json:"n"`
	PID   int64  `json:"pid"`
	Epoch int16  `json:"epoch"`
	Owner string `json:"owner"`
}

// Jump is a plan entry: from Count on, records come from source offsets Src, Src+1, ….
type Jump struct {
	Count int64
	Src   int64
}

// Landing is a landing entry: from Count on, records stand at target offsets Dst, Dst+1, ….
type Landing struct {
	Count int64
	Dst   int64
}

// Span says that the records at source offsets Src … Src+N-1 stand at target offsets Dst … Dst+N-1.
type Span struct {
	Src int64 `json:"src"`
	Dst int64 `json:"dst"`
	N   int64 `json:"n"`
}

// Run is N consecutive source offsets from Src on.
type Run struct {
	Src int64 `json:"src"`
	N   int64 `json:"n"`
}
