package main

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"lockstep/api"
)

// linkTopics are topics of a link that a command line names; none are all of it.
type linkTopics struct {
	link   string
	topics []string
}

var linkPattern = regexp.MustCompile(`^[a-zA-Z0-9._-]+$`)

// parseLinkTopics reads LINK and LINK:TOPIC. A link that is named alone stands for all of its topics.
func parseLinkTopics(names []string) ([]linkTopics, error) {
	var out []linkTopics
	whole := make(map[string]bool)
	for _, name := range names {
		link, topic := name, ""
		if m := topicPattern.FindStringSubmatch(name); m != nil {
			link, topic = m[1], m[2]
		} else if !linkPattern.MatchString(name) {
			return nil, fmt.Errorf("%q: want LINK or LINK:TOPIC, as in dr:orders", name)
		}
		i := slices.IndexFunc(out, func(l linkTopics) bool { return l.link == link })
		if i < 0 {
			out, i = append(out, linkTopics{link: link}), len(out)
		}
		if topic == "" {
			whole[link] = true
		} else if !slices.Contains(out[i].topics, topic) {
			out[i].topics = append(out[i].topics, topic)
		}
	}
	for i := range out {
		if whole[out[i].link] {
			out[i].topics = nil
		}
	}
	return out, nil
}

// onlyLink is the one link that is named, "" for several.
func onlyLink(named []linkTopics) string {
	if len(named) == 1 {
		return named[0].link
	}
	return ""
}

const offlineTopics = "\n\nIt asks the running service; with -c and no service there it looks at both clusters itself, and writes nothing."

func (a *app) topicsListCommand() *cobra.Command {
	var all bool
	c := &cobra.Command{
		Use:   "list [LINK|LINK:TOPIC...]",
		Short: "List the source's topics: copied or why not, and whether something differs",
		Long: "List the source's topics: copied or why not, and whether something differs.\n\nDIFFERS counts what is not alike besides the records, by state: " +
			"lockstep topics diff names it. Topics that the link does not select show with --all, or when they are named." + offlineTopics,
		ValidArgsFunction: a.completeAllTopics,
		RunE: func(cmd *cobra.Command, args []string) error {
			named, err := parseLinkTopics(args)
			if err != nil {
				return usage(err)
			}
			out := api.Topics{Schema: api.Schema, Topics: []api.Topic{}}
			err = a.eachNamed(cmd, named, func(b api.Backend, l linkTopics) error {
				topics, err := filteredTopics(cmd, b, l, all)
				out.Topics = append(out.Topics, topics...)
				return err
			})
			if err != nil {
				return err
			}
			return a.print(out, a.topicsTable(out.Topics))
		},
	}
	c.Flags().BoolVar(&all, "all", false, "also topics that the link does not select")
	return c
}

// eachNamed calls f for the links that are named, or without names for all.
func (a *app) eachNamed(cmd *cobra.Command, named []linkTopics, f func(b api.Backend, l linkTopics) error) error {
	seen := 0
	err := a.askTarget(cmd, onlyLink(named), func(b api.Backend, name string) error {
		i := slices.IndexFunc(named, func(l linkTopics) bool { return l.link == name })
		switch {
		case len(named) == 0:
			return f(b, linkTopics{link: name})
		case i < 0:
			return nil
		}
		seen++
		return f(b, named[i])
	})
	if err == nil && seen < len(named) {
		return usage(fmt.Errorf("not every link of %s is there: lockstep status lists the links", strings.Join(linkNames(named), ", ")))
	}
	return err
}

func linkNames(named []linkTopics) (names []string) {
	for _, l := range named {
		names = append(names, l.link)
	}
	return names
}

// filteredTopics are a link's topics that are asked for. A name that the source does not know is an error.
func filteredTopics(cmd *cobra.Command, b api.Backend, l linkTopics, all bool) ([]api.Topic, error) {
	f := api.TopicFilter{Topics: l.topics, All: all}
	var topics []api.Topic
	var err error
	if svc, ok := b.(*api.Client); ok {
		topics, err = svc.FilteredTopics(cmd.Context(), l.link, f)
	} else if topics, err = b.Topics(cmd.Context(), l.link); err == nil {
		topics = f.Apply(topics)
	}
	for _, name := range l.topics {
		if err == nil && !slices.ContainsFunc(topics, func(t api.Topic) bool { return t.Topic == name }) {
			return nil, usage(fmt.Errorf("no topic %q on the source of link %s: lockstep topics list %s --all shows them", name, l.link, l.link))
		}
	}
	return topics, err
}

// topicDetailWidth lets the table of topics fit a terminal where names are not too long.
const topicDetailWidth = 40

func (a *app) topicsTable(topics []api.Topic) *table {
	t := &table{head: []string{"LINK", "TOPIC", "ON-TARGET", "STATE", "PARTS", "DIFFERS", "DETAIL"}}
	cut := a.column(topicDetailWidth)
	for _, tp := range topics {
		detail := tp.Detail
		if tp.Remedy != "" {
			detail = sentence(detail, tp.Remedy)
		}
		t.addLines([]string{tp.Link}, []string{tp.Topic}, []string{tp.TargetTopic}, []string{tp.State}, []string{partsText(tp)},
			[]string{differsText(tp.Differences)}, cut(harmless(detail)))
	}
	return t
}

// partsText prints the partitions of both sides where they are not the same.
func partsText(t api.Topic) string {
	if t.Partitions == t.TargetPartitions || t.State == api.TopicSkipped {
		return strconv.Itoa(t.Partitions)
	}
	return fmt.Sprintf("%d, target %d", t.Partitions, t.TargetPartitions)
}

func differsText(c api.Counts) string {
	if c.Total == 0 {
		return "-"
	}
	return lanesText(c)
}
