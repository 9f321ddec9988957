package config

import (
	"strings"

	"github.com/knadh/koanf/providers/posflag"
	"github.com/spf13/pflag"
)

// AddFlags declares a flag for each key that has no name or number of the operator's choice in its path, such as
// --api.listen. Load takes those that were given; their help and defaults come from the table.
func AddFlags(fs *pflag.FlagSet) {
	newSchema(Keys()).walk(func(n *node) {
		if !n.hasFlag() {
			return
		}
		usage := strings.TrimSuffix(n.Help, ".") + " (" + n.allowed() + ")"
		fs.String(n.Path, n.Default, usage)
		if n.Type == TypeBool {
			fs.Lookup(n.Path).NoOptDefVal = "true"
		}
	})
}

func (n *node) hasFlag() bool {
	return n.parent != nil && n.leaf() && !strings.ContainsAny(n.Path, "*[")
}

// readFlags returns koanf's provider of the flags' values. Flags that are not keys belong to the command and are
// left alone. Faults are reported while koanf reads it.
func (r *reader) readFlags(fs *pflag.FlagSet) *posflag.Posflag {
	keys := map[string]*node{}
	r.schema.walk(func(n *node) {
		if n.hasFlag() {
			keys[n.Path] = n
		}
	})
	return posflag.ProviderWithFlag(fs, delim, nil, func(f *pflag.Flag) (string, any) {
		n := keys[f.Name]
		if n == nil || !f.Changed {
			return "", nil
		}
		at := n.path()
		v, ok := r.value(n, at, f.Value.String(), Place{Name: "--" + f.Name})
		if !ok {
			return "", nil
		}
		return at.key(), v
	})
}
