package config

import (
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
)

// fields lists the settings of a Go type as the table writes them.
func fields(typ reflect.Type, at string) map[string]reflect.Type {
	found := map[string]reflect.Type{}
	for f := range typ.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		if !f.IsExported() || name == "-" {
			continue
		}
		path, inner := strings.TrimPrefix(at+"."+name, "."), f.Type
		switch {
		case inner.Kind() == reflect.Pointer:
			inner = inner.Elem()
		case inner.Kind() == reflect.Map:
			path, inner = path+".*", inner.Elem()
		case inner.Kind() == reflect.Slice && inner.Elem().Kind() == reflect.Struct:
			path, inner = path+"[]", inner.Elem()
		}
		if inner.Kind() != reflect.Struct || inner == reflect.TypeFor[Secret]() {
			found[path] = inner
			continue
		}
		for p, t := range fields(inner, path) {
			found[p] = t
		}
	}
	return found
}

// The table and the Go types must have the same keys with the same types: a row without a field would be a setting
// that does nothing, a field without a row one that nobody can set.
func TestKeys_MatchTheTypes(t *testing.T) {
	t.Parallel()
	goTypes := map[Type]string{
		TypeText: "string", TypeEnum: "string", TypeBool: "bool", TypeInt: "int", TypeSize: "int64", TypeSpan: "config.Duration",
		TypeList: "[]string", TypeSecret: "config.Secret",
	}
	table, types := map[string]string{}, map[string]string{}
	for _, k := range Keys() {
		if goType, isLeaf := goTypes[k.Type]; isLeaf {
			table[k.Path] = goType
		}
	}
	for path, typ := range fields(reflect.TypeFor[Config](), "") {
		types[path] = typ.String()
	}
	if diff := cmp.Diff(table, types); diff != "" {
		t.Errorf("keys (-table +types):\n%s", diff)
	}
}

// JSON and YAML must show the same names.
func TestKeys_JSONNamesAreYAMLNames(t *testing.T) {
	t.Parallel()
	for _, typ := range []any{Config{}, Node{}, API{}, Metrics{}, Log{}, Limits{}, Cluster{}, TLS{}, SASL{}, Link{}, Topics{}, Configs{}, ACLs{}, Quotas{}, Groups{}, MirrorMaker{}, LinkLimits{}} {
		for f := range reflect.TypeOf(typ).Fields() {
			if f.Tag.Get("yaml") != f.Tag.Get("json") {
				t.Errorf("%T.%s has the names %q and %q", typ, f.Name, f.Tag.Get("yaml"), f.Tag.Get("json"))
			}
		}
	}
}

func TestKeys_EachRowIsComplete(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	newSchema(Keys()).walk(func(n *node) {
		if n.parent == nil {
			return
		}
		if seen[n.Path] {
			t.Errorf("%s has two rows", n.Path)
		}
		seen[n.Path] = true
		if !strings.HasSuffix(n.Help, ".") && !strings.HasSuffix(n.Help, `.*`) || strings.Count(n.Help, ". ") > 0 && !strings.Contains(n.Help, `\.`) {
			t.Errorf("%s: the help is not one sentence: %q", n.Path, n.Help)
		}
		if n.leaf() && n.allowed() == "" {
			t.Errorf("%s does not say what is allowed", n.Path)
		}
		if n.Required && n.leaf() && n.Example == "" {
			t.Errorf("%s is required and has no example", n.Path)
		}
		if (n.Type == TypeSize) != (n.Unit == "bytes" || n.Unit == "bytes per second") {
			t.Errorf("%s has the unit %q", n.Path, n.Unit)
		}
	})
}

// A default that does not pass its own check would make the file that spells it out wrong.
func TestKeys_DefaultsAndExamplesPass(t *testing.T) {
	t.Parallel()
	for _, k := range Keys() {
		n := newSchema([]Key{{Path: "x", Type: k.Type}}).child("x")
		n.Key = k
		if !n.leaf() {
			continue
		}
		for _, text := range []string{k.Default, k.Example} {
			if text == "" && (k.Required || k.Default != "") {
				continue
			}
			r := newReader()
			if v, ok := r.value(n, path{"x"}, text, Place{}); !ok || v == nil {
				t.Errorf("%s: %q does not pass: %v", k.Path, text, r.faults)
			}
		}
	}
}

func TestAddFlags_OneForEachFixedKey(t *testing.T) {
	t.Parallel()
	fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
	AddFlags(fs)
	var got []string
	fs.VisitAll(func(f *pflag.Flag) { got = append(got, f.Name) })
	want := []string{"api.listen", "limits.buffer_bytes", "log.format", "log.level", "metrics.listen", "metrics.per_lane", "node.data_dir", "node.id"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("flags (-want +got):\n%s", diff)
	}
}
