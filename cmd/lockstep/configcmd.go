package main

import (
	"github.com/spf13/cobra"

	"lockstep/config"
)

func (a *app) configCommand() *cobra.Command {
	c := &cobra.Command{Use: "config", Short: "Show the configuration or its reference"}
	show := &cobra.Command{
		Use:   "show",
		Short: "Print the effective configuration, without secrets",
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := a.load(cmd)
			if err != nil {
				return err
			}
			return cfg.WriteYAML(a.stdout)
		},
	}
	config.AddFlags(show.Flags())
	reference := &cobra.Command{
		Use:   "reference",
		Short: "Print every key with its default, unit and meaning",
		RunE:  func(*cobra.Command, []string) error { return config.WriteReference(a.stdout) },
	}
	c.AddCommand(show, reference)
	return c
}
