package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"lockstep/config"
	"lockstep/replicator"
)

func (a *app) runCommand() *cobra.Command {
	var how runMode
	c := &cobra.Command{
		Use:   "run",
		Short: "Run the service: copy until stopped",
		Long: "Run the service: copy until stopped.\n\nThe first SIGINT or SIGTERM ends cleanly: what was sent is finished and stored. " +
			"A second one ends at once. After an end that was not clean the next start seals the lanes concerned and reads from the target how far they came.\n\n" +
			"A link belongs to one instance. While another one is alive this exits with code 3; when that one was silent for half a minute, or has " +
			"given the link up, this takes over. --wait stands by until then. --take-over does not wait: the other instance sees it and writes nothing " +
			"more; it exits with code 3 when that was its last link.\n\n" +
			"A changed configuration file is taken over within seconds, and on SIGHUP at once: lanes that a change does not concern do not notice. " +
			"A file with faults is not taken over.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			source, err := a.source(cmd)
			if err != nil {
				return err
			}
			set, err := newSettings(source)
			if err != nil {
				return err
			}
			if how.takeOver && how.wait {
				return usage(errors.New("--take-over does not wait, --wait does: give one of them"))
			}
			return a.serve(cmd.Context(), set, how)
		},
	}
	c.Flags().BoolVar(&how.once, "once", false, "copy up to the present ends of the source, then exit")
	c.Flags().BoolVar(&how.takeOver, "take-over", false, "take links from another instance at once, also from one that is alive; not for a unit file, or two of them go on forever")
	c.Flags().BoolVar(&how.wait, "wait", false, "stand by while another instance owns a link")
	config.AddFlags(c.Flags())
	return c
}

// runMode is what the command line of run asks for besides the configuration.
type runMode struct{ once, takeOver, wait bool }

func (a *app) serve(ctx context.Context, set *settings, how runMode) error {
	asked := make(chan os.Signal, 1)
	if !how.once {
		signal.Notify(asked, syscall.SIGHUP) // before anything takes time: without it the signal would end the process
		defer signal.Stop(asked)
	}
	show := newProgress(a.stderr)
	log, level := newLeveledLogger(show.logWriter(), set.first.Log)
	n, err := newNode(set, log, level)
	if err != nil {
		return err
	}
	log.Info("lockstep starts", "version", buildVersion(), "owner", n.home.ID, "links", len(set.first.Links))
	hard, cancel := secondSignal(ctx)
	defer cancel()
	err = n.run(ctx, hard, asked, how, show)
	err = errors.Join(err, n.close())
	switch {
	case err == nil:
		log.Info("lockstep ended cleanly")
	case errors.Is(err, replicator.ErrForced):
		log.Warn("lockstep ended before every batch was answered; the next start seals and recovers what is open")
	}
	return err
}

// secondSignal returns a context that ends when a signal arrives after ctx has ended.
func secondSignal(ctx context.Context) (context.Context, context.CancelFunc) {
	hard, cancel := context.WithCancel(context.WithoutCancel(ctx))
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		defer signal.Stop(signals)
		select {
		case <-ctx.Done():
		case <-hard.Done():
			return
		}
		// The signal that ended ctx is in the channel too; only one that comes after it counts.
		for range 2 {
			select {
			case <-signals:
			case <-hard.Done():
				return
			}
		}
		cancel()
	}()
	return hard, cancel
}

func newLogger(w io.Writer, cfg config.Log) *slog.Logger {
	log, _ := newLeveledLogger(w, cfg)
	return log
}

// newLeveledLogger returns a logger, and the level that it goes by.
func newLeveledLogger(w io.Writer, cfg config.Log) (*slog.Logger, *slog.LevelVar) {
	level := new(slog.LevelVar)
	level.Set(levelOf(cfg))
	opts := &slog.HandlerOptions{Level: level}
	if cfg.Format == "json" {
		return slog.New(slog.NewJSONHandler(w, opts)), level
	}
	return slog.New(slog.NewTextHandler(w, opts)), level
}

func levelOf(cfg config.Log) slog.Level {
	var level slog.Level
	if err := level.UnmarshalText([]byte(cfg.Level)); err != nil {
		return slog.LevelInfo
	}
	return level
}
