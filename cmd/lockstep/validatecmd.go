package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kerr"

	"lockstep/config"
	"lockstep/internal/grants"
	"lockstep/internal/kafka"
	"lockstep/internal/statelog"
)

// finding is one thing that validate looked at.
type finding struct {
	What   string `json:"what"`
	Result string `json:"result"` // ok, warning or failed
	Detail string `json:"detail"`
	Remedy string `json:"remedy,omitempty"`
	// Commands give the permissions that are missing, and Grants say what each of them is for. Options are those that
	// lockstep can do without, and those that may be there already.
	Commands []string      `json:"commands,omitempty"`
	Grants   []grants.Line `json:"-"`
	Options  []grants.Line `json:"options,omitempty"`
}

const (
	resultOK      = "ok"
	resultWarning = "warning"
	resultFailed  = "failed"
)

func (a *app) validateCommand() *cobra.Command {
	var tries bool
	c := &cobra.Command{
		Use:   "validate",
		Short: "Check the configuration, and what it needs of both clusters; changes nothing",
		Long: "Check the configuration, and what it needs of both clusters; changes nothing. Permissions are checked for exactly what " +
			"the configuration asks; what is missing is printed as lines of kafka-acls.sh, for an administrator to run as they are.\n\nWith --probe it also makes a scratch topic on each " +
			"target, tries there how the brokers treat sequences, epochs, markers and deletions, says which of lockstep's promises hold, and " +
			"deletes the topic again. Its name begins with lockstep.probe.; so do the transactional ids that it uses. Exit code 3: a promise does not hold.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := a.checkOutput("table", "json", "csv"); err != nil {
				return err
			}
			cfg, err := a.load(cmd)
			if err != nil {
				return err
			}
			if tries && a.output == "csv" {
				return usage(errors.New("--probe prints table, json"))
			}
			found, err := validate(cmd.Context(), cfg, tries, newLogger(a.stderr, config.Log{Level: "error"}))
			if err != nil {
				return err
			}
			if tries {
				return a.validateAndProbe(cmd.Context(), cfg, found)
			}
			return a.printFindings(found)
		},
	}
	c.Flags().BoolVar(&tries, "probe", false, "try on a scratch topic of each target what its brokers do; it is deleted again")
	config.AddFlags(c.Flags())
	return c
}

func (a *app) printFindings(found []finding) error {
	err := a.print(map[string]any{"schema": 1, "checks": found}, a.findingTable(found))
	if err == nil && a.output == "table" {
		err = a.printGrants(found)
	}
	return errors.Join(err, failedChecks(found))
}

// validateAndProbe probes whatever the checks found: what they miss, the brokers tell.
func (a *app) validateAndProbe(ctx context.Context, cfg *config.Config, found []finding) error {
	reports, probing := a.probeTargets(ctx, cfg)
	err := a.print(map[string]any{"schema": 1, "checks": found, "probes": reports}, a.findingTable(found))
	if err == nil && a.output == "table" {
		err = errors.Join(a.printGrants(found), a.printProbes(reports))
	}
	if err = errors.Join(err, failedChecks(found), probing); err != nil {
		return err
	}
	return brokenPromises(reports)
}

// findingTable wraps what was seen. What to do about it stays in one line: it may hold a command to copy.
func (a *app) findingTable(found []finding) *table {
	t := &table{head: []string{"CHECK", "RESULT", "DETAIL"}}
	detail := a.column(60)
	for _, f := range found {
		t.addLines([]string{f.What}, []string{f.Result}, detail(f.Detail))
		if f.Remedy != "" {
			t.add("", "what to do", f.Remedy)
		}
		if a.output == "csv" {
			for _, line := range f.Commands {
				t.add("", "what to do", line)
			}
		}
	}
	return t
}

func failedChecks(found []finding) error {
	failed := 0
	for _, f := range found {
		if f.Result == resultFailed {
			failed++
		}
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d checks failed", failed, len(found))
	}
	return nil
}

// validate looks at every cluster and link; probes is that what --probe does is to be allowed too. Its error means that it
// could not look at all.
func validate(ctx context.Context, cfg *config.Config, probes bool, log *slog.Logger) ([]finding, error) {
	clusters, err := dialAll(cfg, log)
	if err != nil {
		return nil, err
	}
	defer closeAll(clusters)
	v := &validator{cfg: cfg, clusters: clusters, probes: probes, metas: make(map[string]kafka.Meta),
		found: []finding{{What: "configuration", Result: resultOK, Detail: plural(len(cfg.Clusters), "cluster") + ", " + plural(len(cfg.Links), "link")}}}
	for _, name := range sortedKeys(clusters) {
		v.cluster(ctx, name)
	}
	for _, l := range cfg.Links {
		v.link(ctx, l)
	}
	v.collisions()
	return v.found, nil
}

// dialAll prepares the clients of all clusters.
func dialAll(cfg *config.Config, log *slog.Logger) (map[string]*kafka.Cluster, error) {
	out := make(map[string]*kafka.Cluster)
	for name, c := range cfg.Clusters {
		k, err := kafka.Dial(c, kafka.Options{Logger: log})
		if err != nil {
			closeAll(out)
			return nil, fmt.Errorf("cluster %s: %w", name, err)
		}
		out[name] = k
	}
	return out, nil
}

func closeAll(clusters map[string]*kafka.Cluster) {
	for _, c := range clusters {
		c.Close()
	}
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

type validator struct {
	cfg      *config.Config
	clusters map[string]*kafka.Cluster
	probes   bool
	metas    map[string]kafka.Meta
	found    []finding
}

func (v *validator) add(what, result, detail, remedy string) {
	v.found = append(v.found, finding{What: what, Result: result, Detail: detail, Remedy: remedy})
}

func (v *validator) cluster(ctx context.Context, name string) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	meta, err := v.clusters[name].Metadata(ctx)
	if err != nil {
		_, reason := kafka.Classify(err)
		v.add("cluster "+name, resultFailed, err.Error(), reachRemedy(string(reason), name))
		return
	}
	v.metas[name] = meta
	v.versions(ctx, name)
	v.add("cluster "+name, resultOK, fmt.Sprintf("id %s, %s, %s visible", meta.ClusterID, plural(len(meta.Brokers), "broker"), plural(len(meta.Topics), "topic")), "")
}

// versions adds a finding only for brokers that cannot do what is needed of them.
func (v *validator) versions(ctx context.Context, name string) {
	needs := kafka.SourceNeeds()
	for _, l := range v.cfg.Links {
		if l.Target == name {
			needs = kafka.TargetNeeds()
		}
	}
	if err := v.clusters[name].Supports(ctx, needs); err != nil {
		v.add("cluster "+name+" versions", resultFailed, err.Error(), "upgrade the brokers of "+name)
	}
}

func reachRemedy(reason, name string) string {
	if strings.Contains(reason, "author") {
		return "check clusters." + name + ".sasl and the user's grants"
	}
	return "check clusters." + name + ".brokers and tls, and that every address the brokers advertise can be reached from here"
}

func (v *validator) link(ctx context.Context, l config.Link) {
	src, okSrc := v.metas[l.Source]
	dst, okDst := v.metas[l.Target]
	if !okSrc || !okDst {
		v.add("link "+l.Name, resultFailed, "not looked at: a cluster does not answer", "")
		return
	}
	if src.ClusterID == dst.ClusterID {
		v.add("link "+l.Name, resultFailed, fmt.Sprintf("%s and %s are one and the same cluster", l.Source, l.Target),
			"check both clusters' brokers, and what the brokers advertise")
		return
	}
	v.topics(l, src, dst)
	for _, u := range l.Unmatched(sortedKeys(src.Topics)) {
		v.add("link "+l.Name+" topics", resultWarning, fmt.Sprintf("topics.include %q matches no topic of %s", u.Pattern, l.Source), u.Hint)
	}
	v.stateTopic(ctx, l)
	v.permissions(ctx, l)
}

func (v *validator) topics(l config.Link, src, dst kafka.Meta) {
	selected, missing, partitions := 0, 0, 0
	for name, t := range src.Topics {
		if ok, _ := l.Selects(name); !ok || t.Internal {
			continue
		}
		selected++
		partitions += len(t.Parts)
		if _, ok := dst.Topics[l.TargetTopic(name)]; !ok {
			missing++
		}
	}
	detail := fmt.Sprintf("selected: %s with %s; not yet on %s: %s", plural(selected, "topic"), plural(partitions, "partition"), l.Target, plural(missing, "topic"))
	if selected == 0 {
		v.add("link "+l.Name+" topics", resultWarning, detail, "check topics.include and topics.exclude, and that the user may describe the topics on "+l.Source)
		return
	}
	v.add("link "+l.Name+" topics", resultOK, detail, "")
}

// stateTopic looks at the state topic without creating or changing it.
func (v *validator) stateTopic(ctx context.Context, l config.Link) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	log := statelog.New(v.clusters[l.Target], l.Name, statelog.Options{})
	defer log.Close()
	what := "link " + l.Name + " state topic"
	exists, err := log.Exists(ctx)
	switch {
	case errors.Is(err, kerr.TopicAuthorizationFailed):
		v.add(what, resultWarning, "not looked at: "+log.Topic()+" may not be described", "see the missing permissions on cluster "+l.Target)
		return
	case err != nil:
		v.add(what, resultFailed, err.Error(), "")
		return
	case !exists:
		v.add(what, resultOK, log.Topic()+" does not exist yet and is created at the first start", "")
		return
	}
	var wrong *statelog.SettingsError
	switch err := log.Check(ctx); {
	case errors.As(err, &wrong):
		for _, w := range wrong.Wrong {
			v.add(what, resultFailed, fmt.Sprintf("%s is %s, must be %s (%s)", w.Setting, w.Is, w.Want, w.Why), w.Repair)
		}
	case err != nil:
		v.add(what, resultWarning, err.Error(), "")
	default:
		v.add(what, resultOK, log.Topic()+" has the right settings", "")
	}
}

func (v *validator) collisions() {
	topics := make(map[string][]string)
	for name, m := range v.metas {
		for t := range m.Topics {
			topics[name] = append(topics[name], t)
		}
		slices.Sort(topics[name])
	}
	for _, c := range config.Collisions(v.cfg.Links, topics) {
		v.add("topic names", resultFailed, c.String(), "")
	}
}
