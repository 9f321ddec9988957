package main

import (
	"encoding/json"
	"fmt"
	"strings"

	"lockstep/checkpoint/reset"
)

// The forms in which jobs of stream processors take starting offsets.
const (
	formatFlink    = "flink"
	formatFlinkSQL = "flink-sql"
	formatSpark    = "spark"
)

func isJobFormat(output string) bool {
	return output == formatFlink || output == formatFlinkSQL || output == formatSpark
}

// printJob writes the starting offsets of a job. What has to be known about them stands in front of them as comments
// where the form has comments, and on standard error always.
func (a *app) printJob(t translation) error {
	places, err := byTopic(t.places())
	if err != nil {
		return err
	}
	notes := append(append(t.ages(), t.notes()...), t.lonely()...)
	a.note(notes)
	var text string
	switch a.output {
	case formatFlink:
		text = flinkJava(append(t.heading(), notes...), places)
	case formatFlinkSQL:
		text = flinkSQL(append(t.heading(), notes...), places)
	default:
		a.note([]string{"a query that has a checkpoint goes on at the checkpoint's own offsets; these are for a new query, and have to name every partition of its topics"})
		text, err = sparkJSON(places)
	}
	if err == nil {
		_, err = fmt.Fprint(a.stdout, text)
	}
	return err
}

// heading says whose offsets these are.
func (t translation) heading() []string {
	side := "target"
	if t.query.reverse {
		side = "source"
	}
	text := "offsets of the " + side + " of link " + nameText(t.query.link)
	if len(t.query.groups) == 1 {
		text += ", for group " + nameText(t.query.groups[0])
	}
	return []string{text, "a savepoint or checkpoint that the job is started from holds offsets of its own, which override these",
		"a partition that is not named here begins at its earliest offset"}
}

// flinkJava returns Java lines that give the builder of a KafkaSource its starting offsets.
func flinkJava(notes []string, places []reset.Position) string {
	var b strings.Builder
	comment(&b, "// ", notes)
	comment(&b, "// ", []string{"needs java.util.HashMap, java.util.Map, org.apache.kafka.common.TopicPartition and",
		"org.apache.flink.connector.kafka.source.enumerator.initializer.OffsetsInitializer"})
	b.WriteString("Map<TopicPartition, Long> startingOffsets = new HashMap<>();\n")
	for _, p := range places {
		fmt.Fprintf(&b, "startingOffsets.put(new TopicPartition(%s, %d), %dL);\n", javaString(p.Topic), p.Partition, p.Offset)
	}
	b.WriteString("kafkaSourceBuilder.setStartingOffsets(OffsetsInitializer.offsets(startingOffsets));\n")
	return b.String()
}

// flinkSQL returns, for each topic, the options of a table over it.
func flinkSQL(notes []string, places []reset.Position) string {
	var b strings.Builder
	comment(&b, "-- ", notes)
	for len(places) > 0 {
		topic, n := places[0].Topic, 0
		var offsets []string
		for n < len(places) && places[n].Topic == topic {
			offsets = append(offsets, fmt.Sprintf("partition:%d,offset:%d", places[n].Partition, places[n].Offset))
			n++
		}
		fmt.Fprintf(&b, "\n-- WITH options of the table whose 'topic' is %s\n", sqlString(topic))
		fmt.Fprintf(&b, "'scan.startup.mode' = 'specific-offsets',\n'scan.startup.specific-offsets' = %s\n", sqlString(strings.Join(offsets, ";")))
		places = places[n:]
	}
	return b.String()
}

// sparkJSON returns the value of startingOffsets, in one line.
func sparkJSON(places []reset.Position) (string, error) {
	topics := make(map[string]map[int32]int64)
	for _, p := range places {
		if topics[p.Topic] == nil {
			topics[p.Topic] = make(map[int32]int64)
		}
		topics[p.Topic][p.Partition] = p.Offset
	}
	text, err := json.Marshal(topics)
	return string(text) + "\n", err
}

// comment writes lines as comments. They hold no line breaks.
func comment(b *strings.Builder, mark string, lines []string) {
	for _, l := range lines {
		b.WriteString(mark + l + "\n")
	}
}

// javaString writes a Java string literal.
func javaString(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r < ' ' || r == 0x7f: // octal: Java reads a \u escape of a line break as a line break
			fmt.Fprintf(&b, `\%03o`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// sqlString writes an SQL string literal.
func sqlString(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }
