package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

const referenceHead = `# Every key of lockstep's configuration, with its default. The values of required keys are examples.
#
# Each key is taken from the defaults, this file, the environment and the flags; the later one wins. Variables are
# called LOCKSTEP_ and the key, with two underscores between levels. <NAME> is a cluster's name in any case, with _ for
# a dot or hyphen; <N> is a link's number from 0, or its name in the file written likewise. A list in a variable is
# "a,b" or, when an entry has a comma, ["a","b"].
#
# Sizes are numbers of bytes, or numbers with KiB, MiB, GiB, TiB (powers of 1024) or kB, MB, GB, TB (powers of 1000).
# Durations have units: 500ms, 2s, 5m, 1h30m.
# Patterns are RE2 and match whole names. Files are found from the folder where lockstep was started.
#
# A running service takes over a changed file within seconds, and on SIGHUP at once. A file with faults changes nothing.
# "Reload" says what a changed key means for what runs; lanes that it does not concern are not disturbed.
#
# Never copied unless named literally in topics.include: __.*, lockstep\..*, and what MirrorMaker 2 keeps for itself:
# mm2-.*, .*[-.]internal, heartbeats. The brokers' own topics, such as __consumer_offsets, are never copied.
`

// WriteReference writes every key as a YAML file with comments: help, what is allowed, unit, default, variable and
// flag. Optional sections are commented out. The file loads as it is.
func WriteReference(w io.Writer) error {
	r := &reference{}
	r.b.WriteString(referenceHead)
	for _, n := range newSchema(Keys()).children {
		r.b.WriteByte('\n')
		r.node(n, "", "")
	}
	if _, err := w.Write(r.b.Bytes()); err != nil {
		return fmt.Errorf("write reference: %w", err)
	}
	return nil
}

type reference struct{ b bytes.Buffer }

// node writes one key and what is below it. dash is "- " for the first key of a list's entry, and off begins the
// lines of what is commented out.
func (r *reference) node(n *node, indent, off string) {
	if n.Optional {
		off = "# "
	}
	if n.segment == "[]" {
		r.entry(n, indent, off)
		return
	}
	r.comment(n, indent, off)
	name := n.segment
	if name == "*" {
		name = n.Example
	}
	if n.leaf() {
		r.line(indent, off, name+": "+n.shown())
		return
	}
	r.line(indent, off, name+":")
	for _, c := range n.children {
		r.node(c, indent+"  ", off)
	}
	if n.Type == TypeMap {
		r.line(indent+"  ", off, `backup: {brokers: ["10.1.0.1:9092"]}`)
	}
}

// entry writes the entry of a list: its first key carries the dash.
func (r *reference) entry(n *node, indent, off string) {
	for i, c := range n.children {
		if i > 0 {
			r.node(c, indent+"  ", off)
			continue
		}
		r.comment(c, indent, off)
		r.line(indent, off, "- "+c.segment+": "+c.shown())
	}
}

func (r *reference) line(indent, off, text string) { fmt.Fprintf(&r.b, "%s%s%s\n", indent, off, text) }

// comment writes the help and the facts of a key. Inside of what is commented out it is a comment all the same.
func (r *reference) comment(n *node, indent, off string) {
	for _, l := range append([]string{n.Help}, n.facts()...) {
		fmt.Fprintf(&r.b, "%s%s# %s\n", indent, off, l)
	}
}

// facts returns what the reference says about a key besides its help.
func (n *node) facts() []string {
	if n.container() {
		return nil
	}
	origin := n.defaultText() + ". Variable: " + variableName(n.path()) + "."
	if n.hasFlag() {
		origin += " Flag: --" + n.Path + "."
	}
	return []string{"Allowed: " + n.allowed() + ".", origin, "Reload: " + n.Reload.Words() + "."}
}

func (n *node) defaultText() string {
	switch {
	case n.Required:
		return "Required"
	case n.Default == "":
		return "Default: empty"
	case n.Unit != "" && n.Type != TypeSize:
		return "Default: " + n.Default + " " + n.Unit
	default:
		return "Default: " + n.Default
	}
}

// shown returns the key's default, or its example, as YAML.
func (n *node) shown() string {
	text := n.Default
	if n.Example != "" {
		text = n.Example
	}
	switch {
	case n.Type == TypeList && text == "":
		return "[]"
	case n.Type == TypeList && n.Example == "":
		return listText(text)
	case n.Type == TypeList, n.Type == TypeBool, n.Type == TypeInt, n.Type == TypeSize:
		return text
	case regexp.MustCompile(`^[A-Za-z./][A-Za-z0-9_./-]*$`).MatchString(text):
		return text
	default:
		return strconv.Quote(text)
	}
}

// listText returns the entries of a default as a YAML list.
func listText(text string) string {
	list, _ := parseList(text)
	entries, err := json.Marshal(list)
	if err != nil {
		return text // texts can always be encoded
	}
	return strings.ReplaceAll(string(entries), `","`, `", "`)
}

// WriteMarkdown writes every key as one table for the documentation.
func WriteMarkdown(w io.Writer) error {
	var b bytes.Buffer
	b.WriteString("| key | default | allowed | a change is taken over | meaning |\n|---|---|---|---|---|\n")
	newSchema(Keys()).walk(func(n *node) {
		if n.parent == nil || n.segment == "*" || n.segment == "[]" {
			return
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", cell(n.Path), cell(n.markdownDefault()), cell(n.allowed()), n.markdownReload(), cell(n.Help))
	})
	if _, err := w.Write(b.Bytes()); err != nil {
		return fmt.Errorf("write table of keys: %w", err)
	}
	return nil
}

func (n *node) markdownDefault() string {
	switch {
	case n.Required:
		return "(required)"
	case n.Optional:
		return "(off)"
	case n.container():
		return ""
	case n.Default == "":
		return "(empty)"
	}
	return "`" + n.Default + "`"
}

// markdownReload is empty for sections that only group others.
func (n *node) markdownReload() string {
	if n.Type == TypeSection && !n.Optional {
		return ""
	}
	return n.Reload.Words()
}

func cell(text string) string { return strings.ReplaceAll(text, "|", `\|`) }

// WriteYAML writes the effective configuration. Secrets show as [redacted].
func (c *Config) WriteYAML(w io.Writer) error {
	enc := yaml.NewEncoder(w)
	enc.SetIndent(2)
	if err := enc.Encode(c); err != nil {
		return fmt.Errorf("write configuration: %w", err)
	}
	if err := enc.Close(); err != nil {
		return fmt.Errorf("write configuration: %w", err)
	}
	return nil
}
