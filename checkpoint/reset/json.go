package reset

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"lockstep/checkpoint"
)

// jsonSchema is the version of the format below.
const jsonSchema = 1

// jsonFile is the file that export writes. Leader epochs are left out: they mean nothing on another cluster, and a
// position without one is valid everywhere.
type jsonFile struct {
	Schema    int            `json:"schema"`
	Positions []jsonPosition `json:"positions"`
}

type jsonPosition struct {
	Group     string `json:"group"`
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Offset    int64  `json:"offset"`
	Metadata  string `json:"metadata,omitempty"`
}

// WriteJSON writes positions with their metadata.
func WriteJSON(w io.Writer, ps []Position) error {
	f := jsonFile{Schema: jsonSchema, Positions: make([]jsonPosition, len(ps))}
	for i, p := range ps {
		f.Positions[i] = jsonPosition{p.Group, p.Topic, p.Partition, p.Offset, text(p.Metadata)}
	}
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(f)
}

func parseJSON(text []byte) ([]Position, error) {
	var f struct {
		Schema    int               `json:"schema"`
		Positions []json.RawMessage `json:"positions"`
	}
	d := json.NewDecoder(bytes.NewReader(text))
	if err := d.Decode(&f); err != nil {
		return nil, jsonError(text, err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("something follows the JSON value")
	}
	if f.Schema != jsonSchema || f.Positions == nil {
		return nil, fmt.Errorf(`JSON of another kind: want {"schema": %d, "positions": […]}, as lockstep offsets export -o json writes it`, jsonSchema)
	}
	out := make([]Position, len(f.Positions))
	line, behind := 1, text
	for i, raw := range f.Positions {
		if n := bytes.Index(behind, raw); n >= 0 { // they come in the order of the text, byte by byte
			line += bytes.Count(behind[:n], []byte("\n"))
			behind = behind[n:]
		}
		p, err := jsonOne(raw)
		if err != nil {
			return nil, at(line, "positions[%d]: %w", i, err)
		}
		p.Line = line
		out[i] = p
	}
	return out, nil
}

// jsonOne reads one position. What is left out is an error, not 0: offset 0 is the whole topic again.
func jsonOne(raw []byte) (Position, error) {
	var p struct {
		Group     *string `json:"group"`
		Topic     string  `json:"topic"`
		Partition *int32  `json:"partition"`
		Offset    *int64  `json:"offset"`
		Metadata  string  `json:"metadata"`
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(&p); err != nil {
		return Position{}, err
	}
	topic, err := parseTopic(p.Topic)
	if err != nil {
		return Position{}, err
	}
	if p.Group == nil || p.Partition == nil || p.Offset == nil {
		return Position{}, errors.New("want group, topic, partition and offset")
	}
	if *p.Group == "" {
		return Position{}, errNoName
	}
	if *p.Partition < 0 || *p.Offset < 0 {
		return Position{}, fmt.Errorf("partition %d, offset %d: want numbers from 0 on", *p.Partition, *p.Offset)
	}
	return Position{Group: *p.Group, Key: checkpoint.Key{Topic: topic, Partition: *p.Partition}, Offset: *p.Offset, Metadata: &p.Metadata}, nil
}

func jsonError(text []byte, err error) error {
	var s *json.SyntaxError
	if errors.As(err, &s) {
		return at(1+bytes.Count(text[:min(int(s.Offset), len(text))], []byte("\n")), "%w", err)
	}
	return err
}
