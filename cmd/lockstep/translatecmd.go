package main

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/cobra"

	"lockstep/api"
)

func (a *app) translateCommand() *cobra.Command {
	var link string
	var reverse, stdin bool
	var p api.Position
	c := &cobra.Command{
		Use:   "translate --link L (--topic T --partition P --offset N | --stdin)",
		Short: "Translate offsets of the source into offsets of the target, or back",
		Long: "Translate offsets of the source into offsets of the target, or back.\n\nIt asks the running service; with -c and no service it " +
			"reads the target alone: the state topic and the headers of the target's own logs. The answer is exact for every record that " +
			"landed, also when the source and every lockstep process are gone.\n\n--stdin reads CSV lines topic,partition,offset without a header.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := a.checkOutput("table", "json", "csv"); err != nil {
				return err
			}
			if err := checkTranslate(cmd, link, stdin); err != nil {
				return err
			}
			positions := []api.Position{p}
			if stdin {
				var err error
				if positions, err = readPositions(a.stdin); err != nil {
					return usage(err)
				}
			}
			b, done, err := a.backend(cmd, link)
			if err != nil {
				return err
			}
			defer done()
			out, err := b.Translate(cmd.Context(), link, api.TranslateRequest{Reverse: reverse, Offsets: positions})
			if err != nil {
				return orOffline(err)
			}
			if err := a.print(api.Offsets{Schema: api.Schema, Offsets: out}, offsetTable(out)); err != nil {
				return err
			}
			return unknownOffsets(out)
		},
	}
	f := c.Flags()
	f.StringVar(&link, "link", "", "the link")
	f.StringVar(&p.Topic, "topic", "", "topic, by its name on the source")
	f.Int32Var(&p.Partition, "partition", 0, "partition")
	f.Int64Var(&p.Offset, "offset", 0, "offset, next to read")
	f.BoolVar(&stdin, "stdin", false, "read CSV lines topic,partition,offset")
	f.BoolVar(&reverse, "reverse", false, "translate offsets of the target into offsets of the source")
	return c
}

func checkTranslate(cmd *cobra.Command, link string, stdin bool) error {
	one := 0
	for _, name := range []string{"topic", "partition", "offset"} {
		if cmd.Flags().Changed(name) {
			one++
		}
	}
	switch {
	case link == "":
		return usage(errors.New("name the link with --link"))
	case stdin && one > 0:
		return usage(errors.New("--stdin and --topic, --partition, --offset exclude each other"))
	case !stdin && one < 3:
		return usage(errors.New("give --topic, --partition and --offset, or --stdin"))
	}
	return nil
}

// readPositions reads lines of topic, partition, offset. An error names the line and the field.
func readPositions(r io.Reader) ([]api.Position, error) {
	cr := csv.NewReader(r)
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

func offsetTable(os []api.Offset) *table {
	t := &table{head: []string{"LINK", "TOPIC", "PARTITION", "SOURCE OFFSET", "TARGET TOPIC", "TARGET OFFSET", "STATE"}}
	for _, o := range os {
		t.add(o.Link, o.Topic, strconv.Itoa(int(o.Partition)), offset(o.SourceOffset), o.TargetTopic, offset(o.TargetOffset), o.State)
	}
	return t
}

// unknownOffsets makes answers without an offset visible in the exit code.
func unknownOffsets(os []api.Offset) error {
	n := 0
	for _, o := range os {
		if o.State == api.OffsetUnknown {
			n++
		}
	}
	switch {
	case n == 0:
		return nil
	case n == len(os):
		return fmt.Errorf("no answer: the link has no state for these partitions")
	}
	return &exitError{exitPartly, fmt.Errorf("%d of %d positions have no answer", n, len(os))}
}
