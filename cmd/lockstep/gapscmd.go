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
			t := &table{head: []string{"LINK", "TOPIC", "PARTITION", "FROM", "TO", "OFFSETS", "REASON", "AT"}}
			for _, g := range out.Gaps {
				t.add(g.Link, g.Topic, strconv.Itoa(int(g.Partition)), strconv.FormatInt(g.From, 10), strconv.FormatInt(g.To, 10),
					strconv.FormatInt(g.Offsets, 10), g.Reason, g.At.Format(time.RFC3339))
			}
			return a.print(out, t)
		},
	}
	c.Flags().StringVar(&link, "link", "", "only this link")
	return c
}
