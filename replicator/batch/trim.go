package batch

// Trim rebuilds b, one whole batch of any magic, without the records below source offset from, in the codec that it
// came with. It is [Codecs.AppendRecords] and [Codecs.Encode]; nothing is returned when no record is left.
func (c *Codecs) Trim(b []byte, from int64, maxBytes int32) ([]Built, error) {
	h, err := Parse(b)
	if err != nil {
		return nil, err
	}
	rs, err := c.AppendRecords(nil, b, from)
	if err != nil {
		return nil, err
	}
	return c.Encode(rs, h.Codec(), maxBytes)
}
