package grants

import (
	"fmt"
	"slices"
	"strings"
)

// Admin is how the administrator who runs the lines reaches the cluster, and for whom they are.
type Admin struct {
	Bootstrap string // host:port, several with commas between
	Principal string // as Kafka writes it, such as "User:lockstep"
}

// namesPerLine bounds a line.
const namesPerLine = 20

// Line is one command, and what the permissions that it gives are for.
type Line struct {
	For     string `json:"for"`
	Command string `json:"command"`
}

// Lines returns commands of kafka-acls.sh that add the grants, as few as there can be: one for all resources of a kind
// that get the same operations for the same uses. They can be given to a shell as they are, and read the administrator's
// own settings from admin.properties in the folder where they run.
func Lines(a Admin, grants []Grant) (lines []Line) {
	type bundle struct {
		resource  Resource
		prefixed  bool
		ops, uses string
	}
	var order []bundle
	names := make(map[bundle][]string)
	for _, r := range byResource(grants) {
		b := bundle{r.resource, r.name.Prefixed, strings.Join(r.ops, " "), strings.Join(r.uses, "; ")}
		if _, ok := names[b]; !ok {
			order = append(order, b)
		}
		names[b] = append(names[b], r.name.Text)
	}
	for _, b := range order {
		for some := range slices.Chunk(names[b], namesPerLine) {
			lines = append(lines, Line{b.uses, line(a, b.ops, resources(b.resource, b.prefixed, some))})
		}
	}
	return lines
}

// Hint returns the command that gives an operation, as kafka-acls.sh spells it, on a resource, as Named writes it: for a
// message of somebody who knows neither the cluster's address nor whom its brokers took him for. Both are the reader's to
// fill in.
func Hint(operation, resource string) string {
	return line(Admin{Bootstrap: "HOST:PORT", Principal: "User:NAME"}, "--operation "+operation, resource)
}

// Named returns the options of kafka-acls.sh that name a resource; the name of the cluster is not looked at.
func Named(r Resource, n Name) string { return resources(r, n.Prefixed, []string{n.Text}) }

func line(a Admin, ops, resources string) string {
	return fmt.Sprintf("kafka-acls.sh --bootstrap-server %s --command-config admin.properties --add --allow-principal %s %s %s",
		quote(a.Bootstrap), quote(a.Principal), ops, resources)
}

// one is a resource with all the operations that it gets.
type one struct {
	resource Resource
	name     Name
	ops      []string
	uses     []string // each once
}

func byResource(grants []Grant) (out []one) {
	at := make(map[Grant]int)
	for _, g := range grants {
		key := Grant{Resource: g.Resource, Name: g.Name}
		i, ok := at[key]
		if !ok {
			i, out = len(out), append(out, one{resource: g.Resource, name: g.Name})
			at[key] = i
		}
		out[i].ops = append(out[i].ops, "--operation "+g.Operation.option())
		if !slices.Contains(out[i].uses, g.For) {
			out[i].uses = append(out[i].uses, g.For)
		}
	}
	return out
}

// option is how kafka-acls.sh spells the operation: DescribeConfigs.
func (o Operation) option() string {
	var b strings.Builder
	for word := range strings.SplitSeq(string(o), "_") {
		b.WriteString(word[:1] + strings.ToLower(word[1:]))
	}
	return b.String()
}

func resources(r Resource, prefixed bool, names []string) string {
	if r == Cluster {
		return "--cluster"
	}
	var b strings.Builder
	for i, n := range names {
		if i > 0 {
			b.WriteByte(' ')
		}
		fmt.Fprintf(&b, "--%s %s", r, quote(n))
	}
	if prefixed {
		b.WriteString(" --resource-pattern-type prefixed")
	}
	return b.String()
}

// quote makes text one word of a shell's line. What no shell acts upon stays as it is.
func quote(text string) string {
	if text != "" && !strings.ContainsFunc(text, func(r rune) bool { return !safe(r) }) {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

func safe(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._-:,/=@", r)
}
