package config

import "reflect"

// Config is the effective configuration: fully defaulted and checked. It is safe to print in any form, since
// secrets show as [redacted].
type Config struct {
	Node     Node               `yaml:"node" json:"node"`
	API      API                `yaml:"api" json:"api"`
	Metrics  Metrics            `yaml:"metrics" json:"metrics"`
	Log      Log                `yaml:"log" json:"log"`
	Limits   Limits             `yaml:"limits" json:"limits"`
	Clusters map[string]Cluster `yaml:"clusters" json:"clusters"`
	Links    []Link             `yaml:"links" json:"links"`
}

// Link returns the link of a name.
func (c *Config) Link(name string) (Link, bool) {
	for _, l := range c.Links {
		if l.Name == name {
			return l, true
		}
	}
	return Link{}, false
}

// Node says who this process is and where it keeps its files.
type Node struct {
	ID      string `yaml:"id" json:"id"`
	DataDir string `yaml:"data_dir" json:"data_dir"`
}

// API is the HTTP interface.
type API struct {
	Listen string `yaml:"listen" json:"listen"` // host:port of a loopback address
}

// Metrics is the separate listener for /metrics, /healthz and /readyz.
type Metrics struct {
	Listen  string `yaml:"listen" json:"listen"` // host:port, "" is off
	PerLane bool   `yaml:"per_lane" json:"per_lane"`
}

// Log is what is logged, and how.
type Log struct {
	Level  string `yaml:"level" json:"level"`   // debug, info, warn, error
	Format string `yaml:"format" json:"format"` // text, json
}

// Limits bounds the whole process.
type Limits struct {
	BufferBytes int64 `yaml:"buffer_bytes" json:"buffer_bytes"`
}

// Cluster is a Kafka cluster. Name is its key in Config.Clusters.
type Cluster struct {
	Name     string   `yaml:"-" json:"-"`
	Brokers  []string `yaml:"brokers" json:"brokers"` // host:port
	ClientID string   `yaml:"client_id" json:"client_id"`
	Rack     string   `yaml:"rack" json:"rack"`                     // "" is none
	TLS      *TLS     `yaml:"tls,omitempty" json:"tls,omitempty"`   // nil is plain text
	SASL     *SASL    `yaml:"sasl,omitempty" json:"sasl,omitempty"` // nil is no authentication
}

// TLS encrypts the connections to a cluster. The zero value trusts the system's authorities and presents no
// certificate. Files are PEM; they can be replaced while lockstep runs, so their content is not kept here.
type TLS struct {
	CAFile             string `yaml:"ca_file" json:"ca_file"`
	CertFile           string `yaml:"cert_file" json:"cert_file"`
	KeyFile            string `yaml:"key_file" json:"key_file"`
	ServerName         string `yaml:"server_name" json:"server_name"`
	InsecureSkipVerify bool   `yaml:"insecure_skip_verify" json:"insecure_skip_verify"`
}

// SASL authenticates the connections to a cluster.
type SASL struct {
	Mechanism string `yaml:"mechanism" json:"mechanism"` // plain, scram-sha-256, scram-sha-512
	Username  string `yaml:"username" json:"username"`
	Password  Secret `yaml:"password" json:"password"`
}

// Link is a one-way flow from the cluster Source to the cluster Target.
type Link struct {
	Name              string      `yaml:"name" json:"name"`
	Source            string      `yaml:"source" json:"source"`
	Target            string      `yaml:"target" json:"target"`
	Topics            Topics      `yaml:"topics" json:"topics"`
	Start             string      `yaml:"start" json:"start"`                           // earliest, latest or a time
	Isolation         string      `yaml:"isolation" json:"isolation"`                   // read_committed, read_uncommitted
	OnGap             string      `yaml:"on_gap" json:"on_gap"`                         // continue, pause
	ReplicationFactor int         `yaml:"replication_factor" json:"replication_factor"` // 0 is the source's, -1 the target's default
	Configs           Configs     `yaml:"configs" json:"configs"`
	ACLs              ACLs        `yaml:"acls" json:"acls"`
	Quotas            Quotas      `yaml:"quotas" json:"quotas"`
	Groups            Groups      `yaml:"groups" json:"groups"`
	MirrorMaker       MirrorMaker `yaml:"mirrormaker" json:"mirrormaker"`
	Limits            LinkLimits  `yaml:"limits" json:"limits"`

	selector *selector // compiled patterns; nil on a Link that Load did not make
}

// Equal reports whether both links have the same settings.
func (l Link) Equal(o Link) bool {
	l.selector, o.selector = nil, nil
	return reflect.DeepEqual(l, o)
}

// Topics says which topics a link copies, and under which names. Patterns are RE2 and match whole names.
type Topics struct {
	Include []string `yaml:"include" json:"include"`
	Exclude []string `yaml:"exclude" json:"exclude"`
	Rename  string   `yaml:"rename" json:"rename"` // template with one {topic}; "" is "{topic}"
}

// Configs says which topic settings follow the source. Patterns in Exclude are RE2 and match whole names.
type Configs struct {
	Sync    bool     `yaml:"sync" json:"sync"`
	Exclude []string `yaml:"exclude" json:"exclude"`
	Force   bool     `yaml:"force" json:"force"`   // overwrite what others set on the target
	Strict  bool     `yaml:"strict" json:"strict"` // do not create a topic without one of its settings
	// Retention of a mirror that lockstep created: open (it keeps records until the source drops them), source.
	Retention string `yaml:"retention" json:"retention"`
}

// ACLs says whether permissions follow the source, and which.
type ACLs struct {
	Sync   bool   `yaml:"sync" json:"sync"`
	Mode   string `yaml:"mode" json:"mode"`     // dr, migrate
	Groups bool   `yaml:"groups" json:"groups"` // permissions of consumer groups too
}

// Quotas says whether client quotas follow the source.
type Quotas struct {
	Sync bool `yaml:"sync" json:"sync"`
}

// Groups says which consumer groups are kept on the target, under which names and how. Patterns are RE2 and match whole
// names.
type Groups struct {
	Include    []string `yaml:"include" json:"include"`
	Exclude    []string `yaml:"exclude" json:"exclude"`
	Rename     string   `yaml:"rename" json:"rename"` // template with one {group}; "" is "{group}"
	Interval   Duration `yaml:"interval" json:"interval"`
	Sync       bool     `yaml:"sync" json:"sync"`
	MaxRewind  int      `yaml:"max_rewind" json:"max_rewind"` // records
	RewindHold Duration `yaml:"rewind_hold" json:"rewind_hold"`
}

// MirrorMaker says whether a link writes what MirrorMaker 2 would have written for its readers, and where.
type MirrorMaker struct {
	Topics      bool   `yaml:"topics" json:"topics"`
	OffsetSyncs string `yaml:"offset_syncs" json:"offset_syncs"` // source, target
	Separator   string `yaml:"separator" json:"separator"`       // between the parts of the topics' names; "" is a dot
}

// LinkLimits bounds one link.
type LinkLimits struct {
	BytesPerSecond int64 `yaml:"bytes_per_second" json:"bytes_per_second"` // 0 is no limit
}
