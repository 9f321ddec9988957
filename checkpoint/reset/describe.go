package reset

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf16"

	"lockstep/checkpoint"
)

// ErrNotOffsets is returned for other outputs of kafka-consumer-groups.sh than its --describe --offsets.
var ErrNotOffsets = errors.New("it has no positions: give what kafka-consumer-groups.sh prints with --describe (or --describe --offsets)")

// isDescribe reports whether a text is what kafka-consumer-groups.sh --describe prints, of any kind.
func isDescribe(text []byte) bool {
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) > 0 && !chatter(line) {
			return isHeader(fields)
		}
	}
	return false
}

// isHeader recognises the first line of a table of each kind.
func isHeader(fields []string) bool {
	return len(fields) > 2 && fields[0] == "GROUP" && (fields[1] == "TOPIC" || fields[1] == "COORDINATOR" || fields[1] == "CONSUMER-ID")
}

// chatter are sentences that the tool prints between its tables, for people who caught both of its outputs.
func chatter(line string) bool {
	return strings.HasPrefix(line, "Consumer group '") || strings.HasPrefix(line, "Warning: ") || strings.HasPrefix(line, "WARN")
}

// columns say where a table has what. The widths differ from group to group, so each has a header of its own.
type columns struct {
	topic                    int // where the group's column ends, in UTF-16 units, as Java pads
	name, partition, current int // fields, counted from the topic on
}

// parseDescribe reads the tables of one or several groups. A position that the tool shows as "-" is none.
func parseDescribe(text []byte) ([]Position, error) {
	var out []Position
	var cols *columns
	n := 0
	for line := range strings.Lines(string(text)) {
		n++
		line = strings.TrimRight(line, "\r\n")
		fields := strings.Fields(line)
		switch {
		case len(fields) == 0 || chatter(line):
		case isHeader(fields):
			var err error
			if cols, err = readHeader(line, fields); err != nil {
				return nil, at(n, "%w", err)
			}
		case cols == nil:
			return nil, at(n, "%q stands before any header", line)
		default:
			p, ok, err := cols.position(line)
			if err != nil {
				return nil, at(n, "%w", err)
			}
			if ok {
				p.Line = n
				out = append(out, p)
			}
		}
	}
	return out, nil
}

func readHeader(line string, fields []string) (*columns, error) {
	switch fields[1] {
	case "COORDINATOR":
		return nil, fmt.Errorf("this is the output of --describe --state: %w", ErrNotOffsets)
	case "CONSUMER-ID":
		return nil, fmt.Errorf("this is the output of --describe --members: %w", ErrNotOffsets)
	}
	fields = fields[1:]
	c := &columns{topic: strings.Index(line, "TOPIC"), name: 0, partition: slices.Index(fields, "PARTITION"), current: slices.Index(fields, "CURRENT-OFFSET")}
	if c.partition < 0 || c.current < 0 {
		return nil, fmt.Errorf("the header %q has no PARTITION and CURRENT-OFFSET", line)
	}
	return c, nil
}

// position reads one line. Groups may have blanks in their names, so their column is cut by its width.
func (c *columns) position(line string) (Position, bool, error) {
	group, rest := cut(line, c.topic)
	if !strings.HasSuffix(group, " ") {
		return Position{}, false, fmt.Errorf("%q does not fit under its header", line)
	}
	fields := strings.Fields(rest)
	if len(fields) <= max(c.partition, c.current) {
		return Position{}, false, fmt.Errorf("%q has fewer columns than its header", line)
	}
	if fields[c.current] == "-" || fields[c.name] == "-" {
		return Position{}, false, nil
	}
	group = strings.TrimRight(group, " ")
	if group == "" {
		return Position{}, false, errNoName
	}
	topic, err := parseTopic(fields[c.name])
	if err != nil {
		return Position{}, false, err
	}
	partition, err := parsePartition(fields[c.partition])
	if err != nil {
		return Position{}, false, err
	}
	off, err := parseOffset(fields[c.current])
	if err != nil {
		return Position{}, false, err
	}
	p := Position{Group: group, Key: checkpoint.Key{Topic: topic, Partition: partition}, Offset: off}
	return p, true, nil
}

// cut splits a line after n UTF-16 units.
func cut(line string, n int) (before, after string) {
	for i, r := range line {
		if n <= 0 {
			return line[:i], line[i:]
		}
		n -= max(1, utf16.RuneLen(r))
	}
	return line, ""
}
