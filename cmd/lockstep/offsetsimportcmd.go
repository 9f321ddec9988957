package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"lockstep/api"
	"lockstep/checkpoint"
	"lockstep/checkpoint/reset"
	"lockstep/config"
)

// maxImport bounds the file that is read into memory: some million positions.
const maxImport = 256 << 20

func (a *app) offsetsImportCommand() *cobra.Command {
	var f offsetsFlags
	var c consent
	from := fileOffsets{}
	cmd := &cobra.Command{
		Use:   "import --link L FILE|-",
		Short: "Write positions of groups that a file holds",
		Long: "Write positions of groups that a file holds; - is standard input. It reads what offsets export writes, the CSV of kafka-consumer-groups.sh " +
			"(topic,partition,offset with one --group, or the group before them), and what that tool prints with --describe.\n\nWith --translate the " +
			"positions are the source's: each is translated by the link's offset map, and written to the target. The plan, what is refused and how it is " +
			"undone are those of offsets reset.",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			from.name, from.does = args[0], "import "+args[0]
			return a.importOffsets(cmd, &c, &f, from)
		},
	}
	f.addSide(cmd)
	cmd.Flags().StringArrayVar(&f.groups, "group", nil, "group of a file that names none; of a file with several, the one to import")
	cmd.Flags().BoolVar(&from.translate, "translate", false, "the file holds positions of the source: translate them for the target")
	c.addFlags(cmd)
	return cmd
}

// fileOffsets are positions in a file.
type fileOffsets struct {
	name, does string
	translate  bool
}

func (a *app) importOffsets(cmd *cobra.Command, c *consent, f *offsetsFlags, from fileOffsets) error {
	if err := f.check(); err != nil {
		return usage(err)
	}
	switch {
	case len(f.groups) > 1 || f.allGroups || len(f.topics) > 0 || f.allTopics:
		return usage(errors.New("the file says which positions are meant; one --group may choose"))
	case from.translate && f.side != sideTarget:
		return usage(errors.New("--translate writes to the target"))
	case from.name == "-" && !c.yes && !c.dryRun:
		return usage(errors.New("standard input holds the positions, so nobody can be asked: --yes goes ahead, --dry-run shows the plan"))
	}
	ps, err := a.readOffsets(from.name, f.groups)
	if err != nil {
		return usage(fmt.Errorf("%s: %w", from.name, err))
	}
	return a.moveOn(cmd, c, f, func(m *mover) {
		m.does = from.does
		m.targets = func(ctx context.Context) ([]reset.Target, checkpoint.Picture, error) {
			if from.translate {
				if ps, err = a.translateFile(cmd, f.link, ps); err != nil {
					return nil, checkpoint.Picture{}, err
				}
			}
			return fileTargets(ctx, m, ps)
		}
	})
}

func (a *app) readOffsets(name string, groups []string) ([]reset.Position, error) {
	in := a.stdin
	if name != "-" {
		file, err := os.Open(name)
		if err != nil {
			return nil, errors.Unwrap(err)
		}
		defer file.Close()
		in = file
	}
	text, err := io.ReadAll(io.LimitReader(in, maxImport+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxImport {
		return nil, fmt.Errorf("more than %s", humanBytes(maxImport))
	}
	group := ""
	if len(groups) > 0 {
		group = groups[0]
	}
	return reset.Parse(text, group)
}

func fileTargets(ctx context.Context, m *mover, ps []reset.Position) ([]reset.Target, checkpoint.Picture, error) {
	names := make(map[string]bool)
	out := make([]reset.Target, len(ps))
	for i, p := range ps {
		out[i] = p.Target()
		names[p.Group] = true
	}
	return out, reset.Cluster{C: m.cluster}.Reread(ctx, sortedKeys(names)), nil
}

// translationNote says where a translation is not the very record.
func translationNote(t api.Offset) string {
	switch {
	case t.NeverCopied > 0:
		return fmt.Sprintf("%s before it were never copied: the first that was", plural(t.NeverCopied, "source offset"))
	case t.Ahead > 0:
		return fmt.Sprintf("it is %s ahead of what was copied: where the copy ends", plural(t.Ahead, "source offset"))
	}
	return ""
}

// translateFile makes positions of the target out of positions of the source, from what is on the target alone.
func (a *app) translateFile(cmd *cobra.Command, link string, ps []reset.Position) ([]reset.Position, error) {
	cfg, err := a.load(cmd)
	if err != nil {
		return nil, err
	}
	o := newOffline(cmd.Context(), cfg, newLogger(a.stderr, config.Log{Level: "error"}))
	defer o.close()
	req := api.TranslateRequest{Offsets: make([]api.Position, len(ps))}
	for i, p := range ps {
		req.Offsets[i] = api.Position{Topic: p.Topic, Partition: p.Partition, Offset: p.Offset}
	}
	got, err := o.Translate(cmd.Context(), link, req)
	if err != nil {
		return nil, err
	}
	filter, err := o.linkConfig(link).Groups.Filter()
	if err != nil {
		return nil, err
	}
	out := make([]reset.Position, len(ps))
	var errs []error
	for i, t := range got {
		out[i] = ps[i]
		out[i].Group = filter.Target(ps[i].Group)
		if t.TargetOffset == nil {
			errs = append(errs, fmt.Errorf("line %d: link %s has copied nothing of %s", ps[i].Line, link, ps[i].Key))
			continue
		}
		out[i].Topic, out[i].Offset, out[i].Note = t.TargetTopic, *t.TargetOffset, translationNote(t)
	}
	if len(errs) > 0 {
		return nil, refused(fmt.Errorf("nothing was done: %w", missingText(errs)))
	}
	return out, nil
}
