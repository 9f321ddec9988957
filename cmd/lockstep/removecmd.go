package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"lockstep/config"
	"lockstep/internal/grants"
	"lockstep/internal/kafka"
	"lockstep/internal/model"
	"lockstep/internal/pause"
	"lockstep/internal/statelog"
	"lockstep/offsetsync"
)

// ownerSilence is how long a removal looks whether somebody still runs the link: as long as another instance looks
// before it takes one over.
const ownerSilence = 30 * time.Second

func (a *app) linksRemoveCommand() *cobra.Command {
	var c consent
	var target string
	cmd := &cobra.Command{
		Use:   "remove LINK --target CLUSTER",
		Short: "Delete what a link that left the configuration has stored on its target",
		Long: "Delete what a link that left the configuration has stored on its target: the topic lockstep.LINK.state. It works on the target " +
			"itself, without a service.\n\nThe target's topics and their records stay, with retention opened where lockstep made them: give them one " +
			"of their own. What is lost for ever is the translation of the link's offsets and its ledger of gaps. It is refused while the configuration has the link, and while an owner shows a sign of life within 30 " +
			"seconds.",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if target == "" {
				return usage(errors.New("name the cluster that the link copied to with --target, as the configuration calls it"))
			}
			if err := a.checkConsent(&c); err != nil {
				return err
			}
			cfg, err := a.load(cmd)
			if err != nil {
				return err
			}
			return a.remove(cmd, &c, cfg, args[0], target)
		},
	}
	cmd.Flags().StringVar(&target, "target", "", "cluster of the configuration that the link copied to")
	c.addFlags(cmd)
	return cmd
}

func (a *app) remove(cmd *cobra.Command, c *consent, cfg *config.Config, link, target string) error {
	for _, l := range cfg.Links {
		if l.Name == link {
			return refused(fmt.Errorf("the configuration has link %s: take it out there, and end the service that runs it, first", link))
		}
	}
	settings, ok := cfg.Clusters[target]
	if !ok {
		return usage(fmt.Errorf("the configuration has no cluster %q", target))
	}
	log := newLogger(a.stderr, config.Log{Level: "warn"})
	dst, err := kafka.Dial(settings, kafka.Options{Logger: log})
	if err != nil {
		return err
	}
	defer dst.Close()
	r := newRemover(cmd.Context(), dst, link, a.stderr, log)
	defer r.close()
	return a.carryOut(cmd, c, change{plan: r.plan, do: r.do})
}

// remover deletes the state topic of a link that nobody runs.
type remover struct {
	dst     *kafka.Cluster
	link    string
	out     io.Writer // progress
	silence time.Duration

	state    *statelog.Log
	view     *offsetsync.View
	stop     context.CancelFunc
	followed chan struct{} // closed when following the state topic has ended, for the reason in why
	why      error
	step     model.OrderStep
	looked   sign // what the plan saw last
}

func newRemover(ctx context.Context, dst *kafka.Cluster, link string, out io.Writer, log *slog.Logger) *remover {
	ctx, stop := context.WithCancel(ctx)
	r := &remover{dst: dst, link: link, out: out, silence: ownerSilence, stop: stop, followed: make(chan struct{}),
		state: statelog.New(dst, link, statelog.Options{Logger: log})}
	r.view = offsetsync.NewView(r.state)
	go func() {
		defer close(r.followed)
		r.why = r.view.Run(ctx)
	}()
	return r
}

func (r *remover) close() {
	r.stop()
	<-r.followed
	r.state.Close()
}

// sign is what an owner leaves behind when it lives.
type sign struct {
	claim    string
	released bool
	beat     time.Time
	owner    string
}

func (r *remover) sign() sign {
	claim, _ := r.view.Claim()
	beat, _ := r.view.LastBeat()
	return sign{claim: claim.ID, released: claim.Released, beat: beat.Seen, owner: claim.Owner}
}

// read brings the view up to the present.
func (r *remover) read(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	read := make(chan error, 1)
	go func() { read <- r.view.Barrier(ctx) }()
	select {
	case err := <-read:
		return err
	case <-r.followed:
		return r.why
	}
}

// plan reads the state and looks long enough to know that nobody runs the link.
func (r *remover) plan(ctx context.Context) ([]model.OrderStep, error) {
	exists, err := r.exists(ctx)
	if err != nil {
		return nil, fmt.Errorf("reach cluster %s: %w", r.dst.Name(), err)
	}
	if !exists {
		return nil, refused(fmt.Errorf("cluster %s has no topic %s: link %s has stored nothing there", r.dst.Name(), r.state.Topic(), r.link))
	}
	r.step = model.OrderStep{Subject: r.link, State: "not owned"}
	if err := r.read(ctx); err != nil {
		// Whoever wants to be rid of it need not be able to read it; but then nobody can say that it is idle either.
		return nil, fmt.Errorf("read %s: %w", r.state.Topic(), err)
	}
	if err := r.awaitSilence(ctx); err != nil {
		return nil, err
	}
	r.looked = r.sign()
	r.step.Does = fmt.Sprintf("topic %s with %s is deleted; target topics and records stay, with the retention that they have now "+
		"(open, where lockstep made them); the translation of offsets of this link is lost for ever",
		r.state.Topic(), plural(len(r.view.Lanes()), "lane"))
	return []model.OrderStep{r.step}, nil
}

func (r *remover) exists(ctx context.Context) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	return r.state.Exists(ctx)
}

// awaitSilence refuses when an owner shows a sign of life. One that has given the link up needs no look.
func (r *remover) awaitSilence(ctx context.Context) error {
	first := r.sign()
	if first.claim == "" || first.released {
		return nil
	}
	r.step.State = fmt.Sprintf("owner %s, silent for %v", first.owner, r.silence)
	fmt.Fprintf(r.out, "looking for %v whether the owner of %s lives (%s)\n", r.silence, r.link, first.owner)
	end := time.NewTimer(r.silence)
	defer end.Stop()
	tell := time.NewTicker(5 * time.Second)
	defer tell.Stop()
	for since := time.Now(); ; {
		changed := r.view.Changed()
		if err := r.alive(first); err != nil {
			return err
		}
		select {
		case <-changed:
		case <-tell.C:
			fmt.Fprintf(r.out, "no sign of life for %v\n", time.Since(since).Round(time.Second))
		case <-end.C:
			return r.alive(first)
		case <-ctx.Done():
			return errors.New("interrupted: nothing was done")
		}
	}
}

// alive refuses when something of an owner came after the first look.
func (r *remover) alive(first sign) error {
	now := r.sign()
	if now == first || now.released && now.claim == first.claim {
		return nil
	}
	return refused(fmt.Errorf("link %s has an owner that lives (%s): end that service first", r.link, now.owner))
}

// do looks once more and deletes the topic. It returns when no broker names it any more.
func (r *remover) do(ctx context.Context) ([]model.OrderStep, error) {
	if err := r.read(ctx); err != nil {
		return nil, fmt.Errorf("read %s: %w", r.state.Topic(), err)
	}
	if err := r.alive(r.looked); err != nil {
		return nil, err
	}
	r.stop()
	err := r.deleteTopic(ctx)
	for err == nil {
		exists, eerr := r.exists(ctx)
		if eerr != nil || !exists {
			err = eerr
			break
		}
		if !pause.For(ctx, 100*time.Millisecond) {
			return []model.OrderStep{r.step}, nil // ordered, not seen to be done
		}
	}
	if err != nil {
		r.step.Error = err.Error()
	}
	r.step.Done = err == nil
	return []model.OrderStep{r.step}, nil
}

func (r *remover) deleteTopic(ctx context.Context) error {
	topic := r.state.Topic()
	req := kmsg.NewPtrDeleteTopicsRequest()
	req.TimeoutMillis = int32(askTimeout.Milliseconds())
	t := kmsg.NewDeleteTopicsRequestTopic()
	t.Topic = kmsg.StringPtr(topic)
	req.TopicNames, req.Topics = []string{topic}, []kmsg.DeleteTopicsRequestTopic{t}
	resp, err := req.RequestWith(ctx, r.dst.Admin())
	if err != nil {
		return fmt.Errorf("delete %s: %w", topic, err)
	}
	for _, t := range resp.Topics {
		switch err := kerr.ErrorForCode(t.ErrorCode); {
		case errors.Is(err, kerr.TopicAuthorizationFailed):
			return fmt.Errorf("delete %s: %w; grant it: %s", topic, err, grants.Hint("Delete", grants.Named(grants.Topic, grants.Name{Text: topic})))
		case err != nil && !errors.Is(err, kerr.UnknownTopicOrPartition):
			return fmt.Errorf("delete %s: %w", topic, err)
		}
	}
	return nil
}
