package config

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"

	"github.com/go-viper/mapstructure/v2"
	"github.com/knadh/koanf/providers/confmap"
	"github.com/knadh/koanf/v2"
	"github.com/spf13/pflag"
)

// Source is where the configuration comes from. Everything is optional, but a configuration needs clusters and links
// from somewhere.
type Source struct {
	File  string         // path of the YAML file; "" reads none
	Text  []byte         // when not nil it is used instead of reading File, which then only names it in messages
	Env   []string       // NAME=value, normally os.Environ(); also for secrets from "env:NAME"
	Flags *pflag.FlagSet // parsed; see AddFlags
}

// Load reads the configuration: defaults, then the file, then LOCKSTEP_ variables, then flags; the later one wins
// for each key, and lists are replaced as a whole. The error is an *Errors with every fault that was found; the
// configuration is then nil.
func Load(s Source) (*Config, error) {
	l := &loader{reader: newReader(), source: s, lookup: lookupIn(s.Env)}
	if l.read() {
		l.complete()
	}
	if len(l.faults) > 0 {
		return nil, newErrors(l.faults)
	}
	return l.config, nil
}

// Listen returns the api.listen of a configuration that may have faults: whoever asks a running service needs nothing else
// of it, and the service goes on with the configuration from before them. It is the default where none can be read. ok is
// false when there is no such file.
func Listen(s Source) (addr string, ok bool) {
	l := &loader{reader: newReader(), source: s, lookup: lookupIn(s.Env)}
	if _, ok = l.text(); !ok {
		return "", false
	}
	l.read()
	n := l.schema.child("api").child("listen")
	if addr, _ = l.given.Get("api" + delim + "listen").(string); addr == "" || n.check(addr) != "" {
		addr = n.Default
	}
	return addr, true
}

// loader joins the layers and makes the configuration of them.
type loader struct {
	*reader
	source   Source
	lookup   func(string) (string, bool)
	given    *koanf.Koanf // what was given, without defaults
	clusters []string     // usable names, sorted
	links    int
	config   *Config
}

// whole is the place of what is missing altogether.
func (l *loader) whole() Place {
	if l.source.File != "" || l.source.Text != nil {
		return Place{File: l.fileName(), Line: 1}
	}
	return Place{Name: "configuration"}
}

func (l *loader) fileName() string {
	if l.source.File == "" {
		return "configuration"
	}
	return l.source.File
}

// read gathers the three layers. ok is false when the file cannot be used at all.
func (l *loader) read() (ok bool) {
	text, ok := l.text()
	fileLayer := layer{}
	if ok && text != nil {
		fileLayer, ok = l.readFile(l.fileName(), text)
	}
	l.given = koanf.New(delim)
	l.load(confmap.Provider(fileLayer, delim))
	l.load(l.readEnv(l.source.Env, l.names(fileLayer)))
	if l.source.Flags != nil {
		l.load(l.readFlags(l.source.Flags))
	}
	return ok
}

func (l *loader) text() ([]byte, bool) {
	if l.source.Text != nil || l.source.File == "" {
		return l.source.Text, true
	}
	text, err := os.ReadFile(l.source.File)
	if err != nil {
		l.faults = append(l.faults, Fault{Place: Place{File: l.source.File}, What: "cannot be read: " + cause(err)})
		return nil, false
	}
	return text, true
}

// cause returns what the system said, without the path that the fault names already.
func cause(err error) string {
	var pathErr *os.PathError
	if errors.As(err, &pathErr) {
		return pathErr.Err.Error()
	}
	return err.Error()
}

// load adds a layer. koanf's providers that are used here return no errors of their own; one would be a bug.
func (l *loader) load(p koanf.Provider) {
	if err := l.given.Load(p, nil); err != nil {
		l.faults = append(l.faults, Fault{Place: l.whole(), What: fmt.Sprintf("read settings: %v", err)})
	}
}

// names lists the clusters and links of the file.
func (l *loader) names(file layer) names {
	var known names
	for key := range l.places {
		if rest, ok := strings.CutPrefix(key, "clusters"+delim); ok && !strings.Contains(rest, delim) {
			known.clusters = append(known.clusters, rest)
		}
	}
	slices.Sort(known.clusters)
	for i := 0; l.has(path{"links", index(i)}); i++ {
		name, _ := file[path{"links", index(i), "name"}.key()].(string)
		known.links = append(known.links, name)
	}
	return known
}

// complete finds the clusters and links, adds the defaults, checks everything that needs more than one value and
// makes the Config.
func (l *loader) complete() {
	l.clusters = l.names(nil).clusters
	l.countLinks()
	l.missing()
	settings := koanf.New(delim)
	defaults := confmap.Provider(l.defaults(), delim)
	if err := errors.Join(settings.Load(defaults, nil), settings.Merge(l.given)); err != nil {
		l.faults = append(l.faults, Fault{Place: l.whole(), What: fmt.Sprintf("join settings: %v", err)})
		return
	}
	if err := l.decode(settings); err != nil {
		l.faults = append(l.faults, Fault{Place: l.whole(), What: fmt.Sprintf("decode settings: %v", err)})
		return
	}
	l.check()
}

// countLinks finds the number of links, and refuses holes, which only numbers in variables can make.
func (l *loader) countLinks() {
	for l.has(path{"links", index(l.links)}) {
		l.links++
	}
	for key, place := range l.places {
		p := path(strings.Split(key, delim))
		if len(p) != 2 || p[0] != "links" {
			continue
		}
		if n, isEntry := isIndex(p[1]); isEntry && n >= l.links {
			l.fault(Fault{Place: place, What: "is too high a number", Allowed: fmt.Sprintf("0 to %d, or %d for one link more", max(0, l.links-1), l.links)}, p)
		}
	}
}

// instances returns every real path of a pattern: one for each cluster, one for each link.
func (l *loader) instances(n *node) []path {
	all := []path{nil}
	for _, segment := range n.path() {
		var longer []path
		for _, p := range all {
			for _, s := range l.fill(segment) {
				longer = append(longer, p.add(s))
			}
		}
		all = longer
	}
	return all
}

func (l *loader) fill(segment string) []string {
	switch segment {
	case "*":
		return l.clusters
	case "[]":
		entries := make([]string, 0, l.links)
		for i := range l.links {
			entries = append(entries, index(i))
		}
		return entries
	default:
		return []string{segment}
	}
}

// on reports whether all optional sections of a path were given.
func (l *loader) on(n *node, p path) bool {
	for ; n.parent != nil; n, p = n.parent, p[:len(p)-1] {
		if n.Optional && !l.has(p) {
			return false
		}
	}
	return true
}

// defaults returns the value of every key that exists in this configuration and has a default.
func (l *loader) defaults() layer {
	values := layer{}
	l.schema.walk(func(n *node) {
		if n.parent == nil || n.container() || n.Required {
			return
		}
		for _, p := range l.instances(n) {
			if l.on(n, p) {
				values[p.key()], _ = n.parse(n.Default)
			}
		}
	})
	return values
}

// decode fills the Config. Keys at fault are absent from the settings, and keep their zero value.
func (l *loader) decode(settings *koanf.Koanf) error {
	l.config = &Config{Clusters: map[string]Cluster{}, Links: make([]Link, l.links)}
	var failed []error
	into := func(p path, out any) {
		if settings.Exists(p.key()) {
			failed = append(failed, settings.UnmarshalWithConf(p.key(), out, l.decoding()))
		}
	}
	into(path{"node"}, &l.config.Node)
	into(path{"api"}, &l.config.API)
	into(path{"metrics"}, &l.config.Metrics)
	into(path{"log"}, &l.config.Log)
	into(path{"limits"}, &l.config.Limits)
	for _, name := range l.clusters {
		c := Cluster{Name: name}
		if l.has(path{"clusters", name, "tls"}) {
			c.TLS = &TLS{}
		}
		into(path{"clusters", name}, &c)
		l.config.Clusters[name] = c
	}
	for i := range l.config.Links {
		into(path{"links", index(i)}, &l.config.Links[i])
	}
	return errors.Join(failed...)
}

// decoding is strict: the table has already made every value's type right, so that a mismatch is a bug.
func (l *loader) decoding() koanf.UnmarshalConf {
	return koanf.UnmarshalConf{Tag: "yaml", DecoderConfig: &mapstructure.DecoderConfig{
		ErrorUnused: true,
		DecodeHook: func(_, to reflect.Type, value any) (any, error) {
			if text, ok := value.(string); ok && to == reflect.TypeFor[Secret]() {
				return newSecret(text, l.lookup), nil
			}
			return value, nil
		},
	}}
}

// lookupIn finds variables in a list of NAME=value. Of equal names the last counts, as in a process's environment.
func lookupIn(environ []string) func(string) (string, bool) {
	values := make(map[string]string, len(environ))
	for _, e := range environ {
		if name, value, ok := strings.Cut(e, "="); ok {
			values[name] = value
		}
	}
	return func(name string) (string, bool) {
		v, ok := values[name]
		return v, ok
	}
}
