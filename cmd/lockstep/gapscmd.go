package main

import (
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"lockstep/api"
)

func (a *app) gapsCommand() *cobra.Command {
	var link string
	c := &cobra.Command{
		Use:   "gaps",
		Short: "Show the ledger of source ranges that could not be copied",
		Long: "Show the ledger of source ranges that could not be copied.\n\nIt asks the running service, or reads the state topic " +
			"on the target when no service answers and -c names a configuration.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := a.checkOutput("table", "json", "csv"); err != nil {
				return err
			}
			b, done, err := a.backend(cmd, link)
			if err != nil {
				return err
			}
			defer done()
			out := api.Gaps{Schema: api.Schema, Gaps: []api.Gap{}}
			err = eachLink(cmd.Context(), b, link, func(name string) error {
				gaps, err := b.Gaps(cmd.Context(), name)
				out.Gaps = append(out.Gaps, gaps...)
				return err
			})
			if err != nil {
				return orOffline(err)
			}
			return a.print(out, a.gapsTable(out.Gaps))
		},
	}
	c.Flags().StringVar(&link, "link", "", "only this link")
	return c
}

func (a *app) gapsTable(gaps []api.Gap) *table {
	t := &table{head: []string{"LINK", "TOPIC", "PARTITION", "FROM", "TO", "OFFSETS", "REASON", "AT"}}
	reason := a.column(26)
	for _, g := range gaps {
		t.addLines([]string{g.Link}, []string{g.Topic}, []string{strconv.Itoa(int(g.Partition))}, []string{strconv.FormatInt(g.From, 10)},
			[]string{strconv.FormatInt(g.To, 10)}, []string{strconv.FormatInt(g.Offsets, 10)}, reason(g.Reason), []string{g.At.Format(time.RFC3339)})
	}
	return t
}
