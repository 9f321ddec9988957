package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"lockstep/checkpoint/mm2"
	"lockstep/config"
	"lockstep/internal/grants"
	"lockstep/internal/kafka"
	"lockstep/internal/statelog"
	"lockstep/replicator/probe"
	"lockstep/replicator/term"
)

// permissions looks whether the link's users may do what the link's settings ask of them, on both clusters.
func (v *validator) permissions(ctx context.Context, l config.Link) {
	var src, dst []string
	for name, t := range v.metas[l.Source].Topics {
		if ok, _ := l.Selects(name); ok && !t.Internal {
			src, dst = append(src, name), append(dst, l.TargetTopic(name))
		}
	}
	slices.Sort(src)
	slices.Sort(dst)
	v.permissionsOn(ctx, l, grants.Source, l.Source, v.sourceOwn(l, src))
	v.permissionsOn(ctx, l, grants.Target, l.Target, v.targetOwn(ctx, l, dst))
}

// sourceOwn is what the link keeps on its source: MirrorMaker's offset syncs, where they are to be there.
func (v *validator) sourceOwn(l config.Link, topics []string) grants.Own {
	own := grants.Own{Existing: topics}
	if l.MirrorMaker.Topics && l.MirrorMaker.OffsetSyncs == "source" {
		own.Kept = []string{mirrorNames(l).OffsetSyncs(true)}
	}
	return own
}

func (v *validator) targetOwn(ctx context.Context, l config.Link, topics []string) grants.Own {
	own := grants.Own{Existing: topics, State: statelog.Topic(l.Name), TransactionalID: term.TransactionalID(l.Name), Old: v.old(ctx, l.Target)}
	if v.probes {
		own.Scratch = probe.TopicPrefix
	}
	if l.MirrorMaker.Topics {
		names := mirrorNames(l)
		own.Written = []string{names.Heartbeats(), names.RemoteHeartbeats()}
		own.Kept = []string{names.Checkpoints()}
		if l.MirrorMaker.OffsetSyncs != "source" {
			own.Kept = append(own.Kept, names.OffsetSyncs(false))
		}
	}
	return own
}

func mirrorNames(l config.Link) mm2.Names {
	return mm2.Names{Source: l.Source, Target: l.Target, Separator: l.MirrorMaker.Separator}
}

// old reports whether a cluster has brokers before Kafka 2.8, which know no DescribeCluster.
func (v *validator) old(ctx context.Context, cluster string) bool {
	var lacks *kafka.UnsupportedBrokerError
	return errors.As(v.clusters[cluster].Supports(ctx, []kafka.Need{{Key: kmsg.DescribeCluster}}), &lacks)
}

func (v *validator) permissionsOn(ctx context.Context, l config.Link, side grants.Side, cluster string, own grants.Own) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	f := finding{What: fmt.Sprintf("permissions on cluster %s for link %s", cluster, l.Name), Result: resultOK}
	needed := grants.Needed(l, side, own)
	r, err := grants.Look(ctx, v.clusters[cluster], needed, own.Existing)
	if err == nil {
		err = f.permissions(r, v.admin(cluster))
	}
	if err != nil {
		f.Result, f.Detail = resultWarning, "not looked at: "+err.Error()
	}
	v.found = append(v.found, f)
}

// admin is how the lines that are printed reach a cluster. Its error is that nobody can tell who the link's user is.
func (v *validator) admin(cluster string) func() (grants.Admin, error) {
	c := v.cfg.Clusters[cluster]
	return func() (grants.Admin, error) {
		who, err := kafka.Principal(c)
		return grants.Admin{Bootstrap: strings.Join(c.Brokers, ","), Principal: who}, err
	}
}

// permissions tells what a look at a cluster's permissions found.
func (f *finding) permissions(r grants.Report, admin func() (grants.Admin, error)) error {
	if !r.Authorizer {
		f.Detail = "the cluster checks none (it has no authorizer)"
		return nil
	}
	a, err := admin()
	if err != nil {
		return err
	}
	var parts []string
	say := func(result, format string, gs []grants.Grant) {
		if len(gs) > 0 {
			f.Result = worse(f.Result, result)
			parts = append(parts, fmt.Sprintf(format, plural(len(gs), "grant")))
		}
	}
	say(resultFailed, "%s missing", r.Missing)
	say(resultWarning, "%s given for the topics that are there, but not for those to come", r.Later)
	say(resultWarning, "%s not known to be given: the cluster does not tell", r.Unknown)
	for _, b := range r.Barred {
		f.Result = resultFailed
		parts = append(parts, fmt.Sprintf("%s is given, but a rule stands against it on %s", b.Grant, some(b.Topics)))
		f.Remedy = "kafka-acls.sh --list --topic NAME shows the rules of a topic, and --remove --deny-principal takes one away"
	}
	if len(parts) == 0 {
		parts = append(parts, "everything that the link needs for its settings")
	}
	if n := len(r.Options); n > 0 {
		parts = append(parts, plural(n, "grant")+" not given that it can do without")
	}
	f.Detail, f.Grants, f.Options = strings.Join(parts, "; "), grants.Lines(a, slices.Concat(r.Missing, r.Later)), grants.Lines(a, slices.Concat(r.Unknown, r.Options))
	for _, l := range f.Grants {
		f.Commands = append(f.Commands, l.Command)
	}
	return nil
}

func worse(a, b string) string {
	if a == resultFailed || b == resultOK {
		return a
	}
	return b
}

// printGrants shows, below the table, the lines that give what is missing. They stand alone: they are to be copied.
func (a *app) printGrants(found []finding) error {
	var b strings.Builder
	show := func(title string, lines []grants.Line) {
		if len(lines) > 0 {
			fmt.Fprintf(&b, "\n%s:\n", title)
		}
		for _, l := range lines {
			fmt.Fprintf(&b, "\n# %s\n%s\n", l.For, l.Command)
		}
	}
	for _, f := range found {
		show("missing "+f.What+", to be given by an administrator", f.Grants)
		show("options, "+f.What, f.Options)
	}
	_, err := fmt.Fprint(a.stdout, harmless(b.String()))
	return err
}
