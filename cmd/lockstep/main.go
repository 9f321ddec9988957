// Command lockstep keeps one Kafka cluster as an exact standby of another.
//
// This package joins the others and decides nothing itself: one file per command, node.go for the running service.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"lockstep/api"
	"lockstep/config"
)

// Exit codes.
const (
	exitOK      = 0
	exitFailed  = 1
	exitUsage   = 2
	exitRefused = 3
	exitTimeout = 4
	exitPartly  = 5
)

// exitError is an error with its own exit code.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string { return e.err.Error() }
func (e *exitError) Unwrap() error { return e.err }

func refused(err error) error { return &exitError{exitRefused, err} }
func usage(err error) error   { return &exitError{exitUsage, err} }

func main() {
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

// run executes one command line and returns its exit code.
func run(args []string, stdout, stderr io.Writer) int {
	a := &app{stdin: os.Stdin, interactive: isTerminal(os.Stdin), stdout: stdout, stderr: stderr}
	return a.run(args)
}

func (a *app) run(args []string) int {
	// The first signal asks for a clean end. After it the default action comes back, so the command line's own
	// handling of a second one (see run.go) is set up by the service only.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	root := newRoot(a)
	root.SetArgs(args)
	a.args = args
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitOK
	}
	fmt.Fprintln(a.stderr, "lockstep:", harmless(err.Error()))
	return exitCode(err)
}

func exitCode(err error) int {
	var e *exitError
	var bad *config.Errors
	var answer *api.Error
	switch {
	case errors.As(err, &e):
		return e.code
	case errors.As(err, &answer) && answer.Code == api.CodeRefused:
		return exitRefused
	case errors.As(err, &answer) && answer.Code == api.CodeTimeout:
		return exitTimeout
	case errors.As(err, &answer) && (answer.Code == api.CodeNotFound || answer.Code == api.CodeBadRequest):
		return exitUsage // a name or a value on the command line
	case errors.As(err, &bad):
		return exitUsage
	case errors.Is(err, context.DeadlineExceeded):
		return exitTimeout
	}
	return exitFailed
}

// isNotFound reports whether a service answered that there is no such thing.
func isNotFound(err error) bool {
	answer, ok := errors.AsType[*api.Error](err)
	return ok && answer.Code == api.CodeNotFound
}

// app is what all commands share.
type app struct {
	stdin          io.Reader
	interactive    bool // somebody sits at stdin
	stdout, stderr io.Writer
	configFile     string
	server         string
	output         string
	args           []string // the command line
}

func newRoot(a *app) *cobra.Command {
	root := &cobra.Command{
		Use:           "lockstep",
		Short:         "Keep one Kafka cluster as an exact, provable standby of another",
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE:          help,
	}
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usage(err) })
	f := root.PersistentFlags()
	f.StringVarP(&a.configFile, "config", "c", "", "configuration file (default lockstep.yaml, if there is one)")
	f.StringVar(&a.server, "server", "", "address of a running service, http://host:port (default: api.listen of the configuration)")
	f.StringVarP(&a.output, "output", "o", "table", "table, json or csv")
	root.AddCommand(
		a.runCommand(), a.validateCommand(), a.statusCommand(), a.lagCommand(), a.gapsCommand(), a.linksCommand(), a.lanesCommand(), a.topicsCommand(), a.groupsCommand(),
		a.translateCommand(), a.offsetsCommand(), a.configCommand(), a.versionCommand(), a.demoCommand(),
	)
	for _, c := range allCommands(root) {
		if c.Args == nil {
			c.Args = cobra.NoArgs
		}
		if !c.Runnable() { // a group: without this its misspelt commands would print the help and succeed
			c.RunE = help
		}
		inner := c.Args
		c.Args = func(cmd *cobra.Command, args []string) error {
			if err := inner(cmd, args); err != nil {
				return usage(fmt.Errorf("%w (see %s --help)", err, cmd.CommandPath()))
			}
			return nil
		}
	}
	return root
}

func help(cmd *cobra.Command, _ []string) error { return cmd.Help() }

func allCommands(c *cobra.Command) []*cobra.Command {
	out := []*cobra.Command{c}
	for _, sub := range c.Commands() {
		out = append(out, allCommands(sub)...)
	}
	return out
}

const defaultConfigFile = "lockstep.yaml"

// load reads the configuration that the command line names.
func (a *app) load(cmd *cobra.Command) (*config.Config, error) {
	source, err := a.source(cmd)
	if err != nil {
		return nil, err
	}
	return config.Load(source)
}

// source returns where the configuration comes from.
func (a *app) source(cmd *cobra.Command) (config.Source, error) {
	file := a.configFile
	if file == "" {
		if _, err := os.Stat(defaultConfigFile); err == nil {
			file = defaultConfigFile
		}
	}
	if file == "" && !hasEnvConfig() {
		return config.Source{}, usage(fmt.Errorf("no configuration: name a file with -c, or create %s (lockstep config reference shows every key)", defaultConfigFile))
	}
	return config.Source{File: file, Env: os.Environ(), Flags: cmd.Flags()}, nil
}

func hasEnvConfig() bool {
	for _, v := range os.Environ() {
		if len(v) > len("LOCKSTEP_CLUSTERS__") && v[:len("LOCKSTEP_CLUSTERS__")] == "LOCKSTEP_CLUSTERS__" {
			return true
		}
	}
	return false
}
