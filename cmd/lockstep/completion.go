package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"lockstep/api"
	"lockstep/internal/model"
)

// completeWithin bounds a completion's questions: somebody waits at the keyboard.
const completeWithin = 2 * time.Second

// completeLinks offers the links of the running service; without one it offers nothing.
func (a *app) completeLinks(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	var out []string
	a.eachKnown(cmd, func(_ context.Context, _ *api.Client, link string) {
		if len(args) == 0 {
			out = append(out, link)
		}
	})
	return out, cobra.ShellCompDirectiveNoFileComp
}

// completeLanes offers the stopped lanes.
func (a *app) completeLanes(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	return a.completeStopped(cmd, args, func(l api.Lane) string { return fmt.Sprintf("%s:%s/%d", l.Link, l.Topic, l.Partition) })
}

// completeTopics offers the topics that have stopped lanes.
func (a *app) completeTopics(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	return a.completeStopped(cmd, args, func(l api.Lane) string { return l.Link + ":" + l.Topic })
}

// completeGroups offers the groups of all links, or of the one that --link names.
func (a *app) completeGroups(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	var out []string
	only := cmd.Flag("link").Value.String()
	a.eachKnown(cmd, func(ctx context.Context, svc *api.Client, link string) {
		if only != "" && only != link {
			return
		}
		groups, err := svc.FilteredGroups(ctx, link, api.GroupFilter{})
		if err != nil {
			return // nothing to offer
		}
		for _, g := range groups {
			if !slices.Contains(args, g.Group) {
				out = append(out, g.Group)
			}
		}
	})
	return out, cobra.ShellCompDirectiveNoFileComp
}

func (a *app) completeStopped(cmd *cobra.Command, args []string, name func(api.Lane) string) ([]string, cobra.ShellCompDirective) {
	var out []string
	a.eachKnown(cmd, func(ctx context.Context, svc *api.Client, link string) {
		lanes, err := svc.FilteredLanes(ctx, link, api.LaneFilter{States: []string{string(model.StateStopped)}})
		if err != nil {
			return // nothing to offer
		}
		for _, l := range lanes {
			if n := name(l); !slices.Contains(args, n) && (len(out) == 0 || out[len(out)-1] != n) {
				out = append(out, n)
			}
		}
	})
	return out, cobra.ShellCompDirectiveNoFileComp
}

func (a *app) eachKnown(cmd *cobra.Command, f func(ctx context.Context, svc *api.Client, link string)) {
	svc, err := a.service(cmd)
	if err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), completeWithin)
	defer cancel()
	links, err := svc.Links(ctx)
	if err != nil {
		return
	}
	for _, l := range links {
		f(ctx, svc, l.Name)
	}
}
