package main

import (
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"lockstep/api"
)

func (a *app) translateCommand() *cobra.Command {
	var q translateQuery
	c := &cobra.Command{
		Use:   "translate --link L (--topic T --partition P --offset N | --group G | --all-groups | --stdin)",
		Short: "Translate offsets of the source into offsets of the target, or back",
		Long: "Translate offsets of the source into offsets of the target, or back.\n\nIt asks the running service; with -c and no service it " +
			"reads the target alone: the state topic and the headers of the target's own logs. The answer is exact for every record that " +
			"landed, also when the source and every lockstep process are gone.\n\n--stdin reads CSV lines topic,partition,offset without a " +
			"header. --group, which may be repeated, and --all-groups translate where consumer groups stand on the source, with --reverse where " +
			"they stand on the target; the answer says as of when. Groups go by their names on the source.\n\nOutput besides table, json and csv:\n" +
			"  csv        with groups: what kafka-consumer-groups.sh --reset-offsets --from-file reads, topic,partition,offset for one --group and\n" +
			"             group,topic,partition,offset otherwise\n" +
			"  flink      Java lines that give a KafkaSource its starting offsets\n" +
			"  flink-sql  options of a Kafka table, for each topic\n" +
			"  spark      the value of the option startingOffsets\n\n" +
			"What a Flink savepoint or a Spark checkpoint holds overrides such starting offsets.",
		RunE: func(cmd *cobra.Command, _ []string) error { return a.translate(cmd, q) },
	}
	f := c.Flags()
	f.StringVar(&q.link, "link", "", "the link")
	f.StringVar(&q.at.Topic, "topic", "", "topic, by its name on the source")
	f.Int32Var(&q.at.Partition, "partition", 0, "partition")
	f.Int64Var(&q.at.Offset, "offset", 0, "offset, next to read")
	f.StringArrayVar(&q.groups, "group", nil, "consumer group, by its name on the source; may be repeated")
	f.BoolVar(&q.all, "all-groups", false, "every consumer group that has a position in a topic of the link")
	f.BoolVar(&q.stdin, "stdin", false, "read CSV lines topic,partition,offset")
	f.BoolVar(&q.reverse, "reverse", false, "translate offsets of the target into offsets of the source")
	return c
}

// translateQuery is what the command line asks to translate.
type translateQuery struct {
	link                string
	at                  api.Position
	groups              []string
	all, stdin, reverse bool
}

func (q translateQuery) ofGroups() bool { return q.all || len(q.groups) > 0 }

// check refuses a command line that asks for nothing, or in more than one way.
func (q translateQuery) check(cmd *cobra.Command, output string) error {
	one := 0
	for _, name := range []string{"topic", "partition", "offset"} {
		if cmd.Flags().Changed(name) {
			one++
		}
	}
	ways := 0
	for _, way := range []bool{one > 0, len(q.groups) > 0, q.all, q.stdin} {
		if way {
			ways++
		}
	}
	switch {
	case q.link == "":
		return usage(errors.New("name the link with --link"))
	case ways > 1:
		return usage(errors.New("--topic, --partition, --offset and --group and --all-groups and --stdin exclude each other"))
	case !q.ofGroups() && !q.stdin && one < 3:
		return usage(errors.New("give --topic, --partition and --offset, or --group, --all-groups or --stdin"))
	case q.at.Offset < 0:
		return usage(fmt.Errorf("--offset %d: offsets begin at 0", q.at.Offset))
	case q.at.Partition < 0:
		return usage(fmt.Errorf("--partition %d: partitions begin at 0", q.at.Partition))
	case slices.Contains(q.groups, ""):
		return usage(errors.New("--group: a group has a name"))
	case isJobFormat(output) && (q.all || len(q.groups) > 1):
		return usage(fmt.Errorf("-o %s describes one job: name one --group", output))
	}
	return nil
}

// request returns what the service is asked.
func (a *app) translateRequest(q translateQuery) (api.TranslateRequest, error) {
	req := api.TranslateRequest{Reverse: q.reverse, Groups: q.groups, AllGroups: q.all}
	switch {
	case q.stdin:
		var err error
		if req.Offsets, err = readPositions(a.stdin); err != nil {
			return req, usage(err)
		}
	case !q.ofGroups():
		req.Offsets = []api.Position{q.at}
	}
	return req, nil
}

func (a *app) translate(cmd *cobra.Command, q translateQuery) error {
	if err := a.checkOutput("table", "json", "csv", formatFlink, formatFlinkSQL, formatSpark); err != nil {
		return err
	}
	if err := q.check(cmd, a.output); err != nil {
		return err
	}
	req, err := a.translateRequest(q)
	if err != nil {
		return err
	}
	b, done, err := a.backend(cmd, q.link)
	if err != nil {
		return err
	}
	defer done()
	out, err := b.Translate(cmd.Context(), q.link, req)
	if err != nil {
		return orOffline(err)
	}
	t := newTranslation(q, out)
	if err := a.printTranslated(t); err != nil {
		return err
	}
	return t.unanswered()
}
