package config

import "reflect"

// Reload says how a running service takes over a changed value.
type Reload string

// The ways. None of them disturbs a lane that the change does not concern. Rules for records, once there are any, are
// a fourth: the lanes whose rules change go on in a new term, since what they copy means something else from there on.
const (
	ReloadLive    Reload = "live"    // while everything goes on
	ReloadLink    Reload = "link"    // the links concerned end cleanly and start again
	ReloadRestart Reload = "restart" // when the service is started again; the old value stays in force until then
)

// Words says the same as the documentation does.
func (r Reload) Words() string {
	return map[Reload]string{
		ReloadLive: "at once", ReloadLink: "by a clean restart of the link", ReloadRestart: "by a restart of lockstep",
	}[r]
}

// InForce returns what a running service may go by when its configuration was loaded anew: the new one, with the old
// values of the keys that need a restart. It changes neither of its arguments.
func InForce(old, loaded *Config) *Config {
	next := *loaded
	keep(newSchema(Keys()), reflect.ValueOf(old).Elem(), reflect.ValueOf(&next).Elem())
	return &next
}

// keep copies the values that need a restart. Only single sections have such keys: clusters and links can come and go.
func keep(n *node, old, next reflect.Value) {
	for _, c := range n.children {
		from, to := field(old, c.segment), field(next, c.segment)
		switch {
		case c.leaf() && c.Reload == ReloadRestart:
			to.Set(from)
		case c.Type == TypeSection:
			keep(c, from, to)
		}
	}
}

// field returns the field of a struct that holds the key of that name.
func field(v reflect.Value, key string) reflect.Value {
	for i := range v.NumField() {
		if name := yamlName(v.Type().Field(i)); name == key {
			return v.Field(i)
		}
	}
	return reflect.Value{}
}
