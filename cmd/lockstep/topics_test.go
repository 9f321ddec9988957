package main

import (
	"context"
	"net/http/httptest"
	"strings"
	"testing"

	"lockstep/api"
)

// topicsBackend is a link with one topic that is copied, one that cannot be, and one that is left out.
type topicsBackend struct{ cannedBackend }

func (b topicsBackend) Links(ctx context.Context) ([]api.Link, error) {
	links, err := b.cannedBackend.Links(ctx)
	none := api.Counts{ByState: map[string]int{}}
	links[0].Unmatched = []api.Unmatched{{Pattern: `order\.v1`, Hint: `there is a topic "orders.v1"`}}
	links[0].Kept = []api.Kept{{Kind: "acls", Condition: "off", Differs: none}, {Kind: "configs", Condition: "ok", Differs: api.Counts{Total: 2, ByState: map[string]int{"kept": 2}}},
		{Kind: "partitions", Condition: "ok", Differs: none}, {Kind: "quotas", Condition: "unavailable", Why: "CLUSTER_AUTHORIZATION_FAILED", Remedy: "grant it", Differs: none}}
	return links, err
}

func (topicsBackend) Topics(context.Context, string) ([]api.Topic, error) {
	none := api.Counts{ByState: map[string]int{}}
	return []api.Topic{
		{Link: "dr", Topic: "orders", TargetTopic: "orders", State: "copied", Partitions: 6, TargetPartitions: 6, Differs: api.Counts{Total: 1, ByState: map[string]int{"kept": 1}}},
		{Link: "dr", Topic: "payments", TargetTopic: "staging.payments", State: "failed", Detail: "create topic: refused", Remedy: "start more brokers", Partitions: 3, TargetPartitions: 2, Differs: none},
		{Link: "dr", Topic: "secret", TargetTopic: "secret", State: api.TopicSkipped, Detail: `topics.exclude "secret" matches`, Differs: none},
	}, nil
}

func (topicsBackend) Diff(_ context.Context, link string, topics []string) (api.Diff, error) {
	one, two := "1000", "2000"
	d := api.Diff{Differences: []api.Difference{
		{Link: link, Kind: "configs", Topic: "orders", TargetTopic: "orders", Name: "retention.ms", Source: &one, Target: &two, State: "opened", Why: "a mirror keeps records"},
		{Link: link, Kind: "configs", Topic: "orders", TargetTopic: "orders", Name: "segment.ms", Source: &one, State: "kept", Why: "somebody else removed it on the target",
			Remedy: "lockstep topics sync dr:orders sets it to 1000", Side: "target"},
	}}
	if len(topics) > 0 && topics[0] == "quiet" {
		d.Differences = d.Differences[:1]
	}
	return d, nil
}

func TestTopics_ListDiffAndStatus(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(api.Handler(topicsBackend{}, nil, nil))
	t.Cleanup(srv.Close)
	for name, c := range map[string]struct {
		args  []string
		code  int
		says  []string
		lacks []string
	}{
		"list":         {[]string{"topics", "list"}, exitOK, []string{"dr:orders", "1 kept", "staging.payments", "3, there 2", "start more brokers"}, []string{"secret"}},
		"list all":     {[]string{"topics", "list", "--all"}, exitOK, []string{"secret", "skipped", `topics.exclude "secret" matches`}, nil},
		"list one":     {[]string{"topics", "list", "dr:secret"}, exitOK, []string{"topics.exclude"}, []string{"orders"}},
		"list none":    {[]string{"topics", "list", "dr:nope"}, exitUsage, []string{"dr:nope"}, nil},
		"diff":         {[]string{"topics", "diff", "dr"}, exitFailed, []string{"retention.ms", "opened", "segment.ms", "kept", "target", "lockstep topics sync dr:orders"}, nil},
		"diff open":    {[]string{"topics", "diff", "dr", "--open"}, exitFailed, []string{"segment.ms"}, []string{"retention.ms"}},
		"diff nothing": {[]string{"topics", "diff", "dr:quiet"}, exitOK, []string{"retention.ms"}, []string{"segment.ms"}},
		"diff JSON":    {[]string{"topics", "diff", "dr", "-o", "json"}, exitFailed, []string{`"schema": 1`, `"target": null`}, nil},
		"sync what":    {[]string{"topics", "sync", "dr", "--kinds", "users"}, exitUsage, []string{"partitions, configs, acls, quotas"}, nil},
		"sync fewer":   {[]string{"topics", "sync", "dr", "--confirm", "-1"}, exitUsage, []string{"--confirm"}, nil},
		"status": {[]string{"status"}, exitOK, []string{`topics.include "order\\.v1" matches no topic of primary`, `there is a topic "orders.v1"`, "configs: ok, 2 kept",
			"quotas: unavailable", "CLUSTER_AUTHORIZATION_FAILED", "grant it"}, []string{"acls", "partitions: ok"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, errs, code := lockstep(t, append(c.args, "--server", srv.URL)...)
			said := strings.Join(strings.Fields(out+errs), " ")
			if code != c.code {
				t.Errorf("exit code %d, want %d", code, c.code)
			}
			for _, text := range c.says {
				if !strings.Contains(said, strings.Join(strings.Fields(text), " ")) {
					t.Errorf("lacks %q", text)
				}
			}
			for _, text := range c.lacks {
				if strings.Contains(said, text) {
					t.Errorf("has %q", text)
				}
			}
			if t.Failed() {
				t.Logf("stdout:\n%s\nstderr:\n%s", out, errs)
			}
		})
	}
}
