package reset

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"lockstep/checkpoint"
)

// ErrNoGroup is returned for a file that names no group, when none was given.
var ErrNoGroup = errors.New("the file has three columns, topic,partition,offset: say for which group with --group")

// heads are the first lines that our own tables print as CSV; the tool prints none.
var heads = [][]string{{"topic", "partition", "offset"}, {"group", "topic", "partition", "offset"}}

// parseCSV reads what kafka-consumer-groups.sh exports. The number of columns says whether groups are named.
func parseCSV(text []byte, group string) ([]Position, error) {
	r := csv.NewReader(bytes.NewReader(text))
	r.FieldsPerRecord = -1
	var out []Position
	for columns := 0; ; {
		row, err := r.Read()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, csvError(err)
		}
		line, _ := r.FieldPos(0)
		if columns == 0 {
			columns = len(row)
			if isHead(row) {
				continue
			}
		}
		if len(row) != columns || columns < 3 || columns > 4 {
			return nil, at(line, "%d columns: want topic,partition,offset or group,topic,partition,offset, the same in all lines", len(row))
		}
		p, err := csvPosition(row, group)
		if err != nil {
			return nil, at(line, "%w", err)
		}
		p.Line = line
		out = append(out, p)
	}
}

func isHead(row []string) bool {
	return slices.ContainsFunc(heads, func(h []string) bool { return slices.Equal(h, row) })
}

func csvError(err error) error {
	var p *csv.ParseError
	if errors.As(err, &p) {
		return at(p.Line, "%w", p.Err)
	}
	return err
}

func csvPosition(row []string, group string) (Position, error) {
	if len(row) == 3 {
		if group == "" {
			return Position{}, ErrNoGroup
		}
		row = append([]string{group}, row...)
	}
	if row[0] == "" {
		return Position{}, errNoName
	}
	topic, err := parseTopic(row[1])
	if err != nil {
		return Position{}, err
	}
	partition, err := parsePartition(row[2])
	if err != nil {
		return Position{}, err
	}
	off, err := parseOffset(row[3])
	return Position{Group: row[0], Key: checkpoint.Key{Topic: topic, Partition: partition}, Offset: off}, err
}

// WriteCSV writes positions as kafka-consumer-groups.sh reads them with --from-file: three columns of a group that was
// asked for alone, else four with the group first, however many there turned out to be; no header, quoted as RFC 4180 says.
// Metadata has no place in it.
func WriteCSV(w io.Writer, ps []Position, alone bool) error {
	for _, p := range ps {
		if !alone && strings.ContainsAny(p.Group, "\r\n") {
			return fmt.Errorf("group %q has a line break in its name, which kafka-consumer-groups.sh cannot read: ask for it alone, or for JSON", p.Group)
		}
	}
	cw := csv.NewWriter(w)
	for _, p := range ps {
		row := []string{p.Group, p.Topic, strconv.Itoa(int(p.Partition)), strconv.FormatInt(p.Offset, 10)}
		if alone {
			row = row[1:]
		}
		if err := cw.Write(row); err != nil {
			return err
		}
	}
	cw.Flush()
	return cw.Error()
}
