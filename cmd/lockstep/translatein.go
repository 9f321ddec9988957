package main

import (
	"bufio"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"strconv"

	"lockstep/api"
)

// byteOrderMark is what spreadsheets begin a file with.
const byteOrderMark = "\xef\xbb\xbf"

// readPositions reads lines of topic, partition, offset. An error names the line and the field.
func readPositions(r io.Reader) ([]api.Position, error) {
	br := bufio.NewReader(r)
	if mark, _ := br.Peek(len(byteOrderMark)); string(mark) == byteOrderMark {
		_, _ = br.Discard(len(byteOrderMark)) // what was peeked at is there
	}
	cr := csv.NewReader(br)
	cr.FieldsPerRecord = 3
	cr.TrimLeadingSpace = true
	var out []api.Position
	for {
		row, err := cr.Read()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, fmt.Errorf("standard input: want topic,partition,offset: %w", err)
		}
		line, _ := cr.FieldPos(0)
		partition, err := strconv.ParseInt(row[1], 10, 32)
		if err != nil || partition < 0 {
			return nil, fmt.Errorf("standard input, line %d: partition %q is not a number from 0 on", line, row[1])
		}
		off, err := strconv.ParseInt(row[2], 10, 64)
		if err != nil || off < 0 {
			return nil, fmt.Errorf("standard input, line %d: offset %q is not a number from 0 on", line, row[2])
		}
		out = append(out, api.Position{Topic: row[0], Partition: int32(partition), Offset: off})
	}
}
