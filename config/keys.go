package config

import (
	"math"
	"time"
)

// Type is the form of a key's value.
type Type string

// The types. A map has names of the operator's choice below it, a list has numbered entries.
const (
	TypeSection Type = "section"
	TypeMap     Type = "map"
	TypeSeq     Type = "list of sections"
	TypeText    Type = "text"
	TypeEnum    Type = "one of"
	TypeBool    Type = "true or false"
	TypeInt     Type = "number"
	TypeSize    Type = "size" // an int64 of bytes, or bytes per second
	TypeSpan    Type = "duration"
	TypeList    Type = "list of texts"
	TypeSecret  Type = "secret"
)

// Key is one row of the table that all of this package follows.
type Key struct {
	// Path is the place in the file: "*" stands for a name of the operator's choice, "[]" for an entry of a list.
	Path     string
	Type     Type
	Default  string // as in an environment variable; sections have none
	Required bool   // has no default; always to be given where its section is
	Optional bool   // a section that means something by being there; left out it is off
	Unit     string
	Help     string // one sentence
	Values   []string
	Allowed  string // for people, where Type and Values do not say it
	Example  string // what the reference shows instead of the default
	Min, Max int64  // for numbers and sizes; of a duration in nanoseconds
	Reload   Reload // how a changed value is taken over; "" is as in the section around it

	check func(text string) string // what is wrong with a text, or with one entry of a list of texts; "" is nothing
}

const namesAllowed = "letters, digits, dots, underscores and hyphens, at most 100 characters"

// Keys returns the table, sections before what is in them. Every key of the product has exactly one row.
func Keys() []Key {
	var rows []Key
	for _, part := range [][]Key{processKeys(), clusterKeys(), linkKeys(), groupKeys(), mirrorMakerKeys(), limitKeys()} {
		rows = append(rows, part...)
	}
	return rows
}

func processKeys() []Key {
	return []Key{
		{Path: "node", Reload: ReloadRestart, Type: TypeSection, Help: "This process."},
		{Path: "node.id", Type: TypeText, Default: "n1", Allowed: namesAllowed, check: checkName,
			Help: "Name of this process among those that work together."},
		{Path: "node.data_dir", Type: TypeText, Default: "./data", Allowed: "a folder",
			Help: "Folder for this process's own files; it is created when it is missing."},

		{Path: "api", Reload: ReloadRestart, Type: TypeSection, Help: "The HTTP interface, which the command line uses too."},
		{Path: "api.listen", Type: TypeText, Default: "127.0.0.1:7480", check: checkLoopback,
			Allowed: "host:port with a loopback host (127.0.0.1, [::1], localhost); port 0 takes a free one",
			Help:    "Address of the HTTP interface; it has no authentication yet, so that only this machine may reach it."},

		{Path: "metrics", Reload: ReloadRestart, Type: TypeSection, Help: "A second listener for monitoring."},
		{Path: "metrics.listen", Type: TypeText, Default: "", check: checkListen,
			Allowed: "host:port, or empty for off; port 0 takes a free one",
			Help:    "Address that serves /metrics, /healthz and /readyz, and nothing else, to any machine that can reach it."},
		{Path: "metrics.per_lane", Type: TypeBool, Default: "true",
			Help: "Whether metrics have series for each partition; false keeps the sums per topic."},

		{Path: "log", Type: TypeSection, Help: "The log, on standard error."},
		{Path: "log.level", Reload: ReloadLive, Type: TypeEnum, Default: "info", Values: []string{"debug", "info", "warn", "error"},
			Help: "The least important messages that are written."},
		{Path: "log.format", Reload: ReloadRestart, Type: TypeEnum, Default: "text", Values: []string{"text", "json"},
			Help: "Form of the log's lines."},

		{Path: "limits", Type: TypeSection, Help: "Bounds for the whole process."},
		{Path: "limits.buffer_bytes", Reload: ReloadLive, Type: TypeSize, Default: "256MiB", Unit: "bytes", Min: 16 << 20, Max: math.MaxInt64,
			Help: "Memory for all records on their way together, whatever the number of partitions."},
	}
}

func clusterKeys() []Key {
	return []Key{
		{Path: "clusters", Reload: ReloadLive, Type: TypeMap, Required: true, Allowed: "a name for each Kafka cluster",
			Help: "The Kafka clusters, each under a name of your choice."},
		{Path: "clusters.*", Reload: ReloadLink, Type: TypeSection, Example: "primary", Allowed: namesAllowed, check: checkName,
			Help: "One Kafka cluster."},
		{Path: "clusters.*.brokers", Type: TypeList, Required: true, Example: `["10.0.0.1:9092"]`, check: checkBroker,
			Allowed: "a list of host:port", Help: "Brokers to begin with; the others are learned from them."},
		{Path: "clusters.*.client_id", Type: TypeText, Default: "lockstep", check: checkPlain,
			Allowed: "text without spaces and control characters",
			Help:    "Beginning of the client ids that the brokers see, for quotas and logs."},
		{Path: "clusters.*.rack", Type: TypeText, Default: "", check: checkPlain,
			Allowed: "a broker.rack of the cluster, or empty",
			Help:    "Rack or zone of this process, so that records are read from a replica near by."},

		{Path: "clusters.*.tls", Type: TypeSection, Optional: true,
			Help: "Encrypts the connections; \"tls: {}\" trusts the system's authorities, left out is plain text."},
		{Path: "clusters.*.tls.ca_file", Type: TypeText, Default: "", Allowed: "a PEM file, or empty for the system's authorities",
			Help: "Authorities that the brokers' certificates must come from."},
		{Path: "clusters.*.tls.cert_file", Type: TypeText, Default: "", Allowed: "a PEM file, or empty",
			Help: "Certificate that lockstep presents; goes together with key_file."},
		{Path: "clusters.*.tls.key_file", Type: TypeText, Default: "", Allowed: "a PEM file, or empty",
			Help: "Private key of cert_file."},
		{Path: "clusters.*.tls.server_name", Type: TypeText, Default: "", check: checkHost,
			Allowed: "a host name, or empty for each broker's own",
			Help:    "Host name that the brokers' certificates must carry."},
		{Path: "clusters.*.tls.insecure_skip_verify", Type: TypeBool, Default: "false",
			Help: "Accepts any certificate, which protects against nobody who can change the traffic."},

		{Path: "clusters.*.sasl", Type: TypeSection, Optional: true,
			Help: "Authenticates the connections; left out is no authentication."},
		{Path: "clusters.*.sasl.mechanism", Type: TypeEnum, Required: true, Example: "scram-sha-512",
			Values: []string{"plain", "scram-sha-256", "scram-sha-512"},
			Help:   "How user and password are shown to the brokers; plain needs TLS to be safe."},
		{Path: "clusters.*.sasl.username", Type: TypeText, Required: true, Example: "lockstep", Allowed: "a user name",
			Help: "User name."},
		{Path: "clusters.*.sasl.password", Type: TypeSecret, Required: true, Example: "env:KAFKA_PASSWORD",
			Allowed: "env:NAME, file:PATH (read again for new connections), or the password itself",
			Help:    "Password; it is never printed."},
	}
}

func linkKeys() []Key {
	const patterns = "a list of RE2 patterns, each for whole names"
	return []Key{
		{Path: "links", Reload: ReloadLink, Type: TypeSeq, Required: true, Allowed: "at least one link",
			Help: "The flows, each from one cluster to another."},
		{Path: "links[]", Type: TypeSection, Help: "One flow from the cluster source to the cluster target."},
		{Path: "links[].name", Type: TypeText, Required: true, Example: "dr", Allowed: namesAllowed, check: checkName,
			Help: "Name of the link; it becomes part of the state topic's name on the target, so keep it."},
		{Path: "links[].source", Type: TypeText, Required: true, Example: "primary", Allowed: "a name of clusters",
			Help: "Cluster to copy from; nothing is written there, unless mirrormaker.offset_syncs says so."},
		{Path: "links[].target", Type: TypeText, Required: true, Example: "backup", Allowed: "a name of clusters, not the source",
			Help: "Cluster to copy to."},

		{Path: "links[].topics", Type: TypeSection, Help: "Which topics are copied, and under which names."},
		{Path: "links[].topics.include", Reload: ReloadLive, Type: TypeList, Required: true, Example: `[".*"]`, Allowed: patterns, check: checkInclude,
			Help: "Topics to copy; internal ones (__.*, lockstep\\..*, mm2-.*, .*[-.]internal, heartbeats) only if named literally here."},
		{Path: "links[].topics.exclude", Reload: ReloadLive, Type: TypeList, Default: "", Allowed: patterns, check: checkPattern,
			Help: "Topics not to copy; wins over include."},
		{Path: "links[].topics.rename", Type: TypeText, Default: topicVariable, check: checkRename,
			Allowed: "letters, digits, dots, underscores, hyphens and exactly one {topic}; not beginning with lockstep. or __",
			Help:    "Name on the target, where {topic} stands for the name on the source."},

		{Path: "links[].start", Reload: ReloadLive, Type: TypeText, Default: "earliest", check: checkStart,
			Allowed: "earliest, latest, or a time such as 2026-01-31T08:00:00Z or 1769846400s",
			Help:    "Where the copy of a topic begins when the link has no position in it yet."},
		{Path: "links[].isolation", Type: TypeEnum, Default: "read_committed", Values: []string{"read_committed", "read_uncommitted"},
			Help: "Whether records of open and aborted transactions are left out."},
		{Path: "links[].on_gap", Reload: ReloadLive, Type: TypeEnum, Default: "continue", Values: []string{"continue", "pause"},
			Help: "What a partition does when the source deleted records before they were read; the ledger lists them in both cases."},
		{Path: "links[].replication_factor", Reload: ReloadLive, Type: TypeInt, Default: "0", Unit: "replicas", Min: -1, Max: math.MaxInt16,
			Help: "Replicas of topics that lockstep creates; 0 takes the source's, at most the target's number of brokers; -1 takes the target's default."},

		{Path: "links[].configs", Reload: ReloadLive, Type: TypeSection, Help: "The topics' settings."},
		{Path: "links[].configs.sync", Type: TypeBool, Default: "true",
			Help: "Whether the settings of a source topic are carried over to its copy."},
		{Path: "links[].configs.exclude", Type: TypeList, Default: "", Allowed: patterns, check: checkPattern,
			Help: "Settings that are not carried over, such as retention\\..*"},
		{Path: "links[].configs.force", Type: TypeBool, Default: "false",
			Help: "Whether a setting that somebody else wrote on the target is overwritten; otherwise it is kept and shown."},
		{Path: "links[].configs.strict", Type: TypeBool, Default: "false",
			Help: "Whether a topic is not created at all when the target refuses one of its settings."},
		{Path: "links[].configs.retention", Type: TypeEnum, Default: "open", Values: []string{"open", "source"},
			Help: "How long topics that lockstep created keep records while they are mirrors: open drops what the source dropped and nothing else, source takes the source's limits."},

		{Path: "links[].acls", Reload: ReloadLive, Type: TypeSection, Help: "Permissions on what the link copies."},
		{Path: "links[].acls.sync", Type: TypeBool, Default: "false",
			Help: "Whether permissions on the link's topics, groups and transactional ids are carried over."},
		{Path: "links[].acls.mode", Type: TypeEnum, Default: "dr", Values: []string{"dr", "migrate"},
			Help: "Whether permissions to write wait for the promotion (dr) or are carried over as they are at once (migrate)."},
		{Path: "links[].acls.groups", Type: TypeBool, Default: "true",
			Help: "Whether permissions on consumer groups are carried over too."},

		{Path: "links[].quotas", Reload: ReloadLive, Type: TypeSection, Help: "Quotas of clients."},
		{Path: "links[].quotas.sync", Type: TypeBool, Default: "false",
			Help: "Whether client quotas are carried over; those of lockstep's own clients never are."},
	}
}

// groupKeys are the keys of a link's consumer groups.
func groupKeys() []Key {
	const patterns = "a list of RE2 patterns, each for whole names"
	return []Key{
		{Path: "links[].groups", Reload: ReloadLive, Type: TypeSection, Help: "The consumer groups, which are kept on the target where they stand on the source."},
		{Path: "links[].groups.include", Type: TypeList, Default: ".*", Allowed: patterns, check: checkPattern,
			Help: "Groups to keep on the target; lockstep's own (lockstep\\..*) never are, and an empty list is none."},
		{Path: "links[].groups.exclude", Type: TypeList, Default: "console-consumer-.*,connect-.*,__.*", Allowed: patterns, check: checkPattern,
			Help: "Groups to leave out; wins over include, and a list given here replaces the default one."},
		{Path: "links[].groups.rename", Type: TypeText, Default: groupVariable, check: checkGroupRename,
			Allowed: "text with exactly one {group}; names that begin with lockstep. are refused",
			Help:    "Name on the target, where {group} stands for the name on the source."},
		{Path: "links[].groups.interval", Type: TypeSpan, Default: "2s", Min: int64(500 * time.Millisecond), Max: int64(time.Hour),
			Help: "Time from one look at the groups to the next."},
		{Path: "links[].groups.sync", Type: TypeBool, Default: "true",
			Help: "Whether positions are committed on the target; false only shows them translated."},
		{Path: "links[].groups.max_rewind", Type: TypeInt, Default: "10000", Unit: "records", Min: 0, Max: math.MaxInt64,
			Help: "A source position that jumps back by more than this is not followed at once, as it may be a mistake."},
		{Path: "links[].groups.rewind_hold", Type: TypeSpan, Default: "5m", Min: 0, Max: int64(30 * 24 * time.Hour),
			Help: "For how long such a position is not followed, unless lockstep groups accept says so."},
	}
}

// mirrorMakerKeys are the keys of what a link writes for MirrorMaker 2's readers.
func mirrorMakerKeys() []Key {
	return []Key{
		{Path: "links[].mirrormaker", Type: TypeSection, Help: "Topics for programs that read what MirrorMaker 2 writes, such as Java's RemoteClusterUtils."},
		{Path: "links[].mirrormaker.topics", Type: TypeBool, Default: "false",
			Help: "Whether checkpoints, offset syncs and heartbeats are written in MirrorMaker 2's formats."},
		{Path: "links[].mirrormaker.offset_syncs", Type: TypeEnum, Default: "target", Values: []string{"target", "source"},
			Help: "The cluster that offset syncs are written to; source is where MirrorMaker 2 has them, and the only thing that lockstep ever writes there."},
		{Path: "links[].mirrormaker.separator", Type: TypeText, Default: ".", check: checkSeparator,
			Allowed: "letters, digits, dots, underscores and hyphens, at least one, at most 20",
			Help:    "What stands between the parts of the topics' names, as MirrorMaker 2's replication.policy.separator."},
	}
}

func limitKeys() []Key {
	return []Key{
		{Path: "links[].limits", Reload: ReloadLive, Type: TypeSection, Help: "Bounds for this link."},
		{Path: "links[].limits.bytes_per_second", Type: TypeSize, Default: "0", Unit: "bytes per second", Min: 0, Max: math.MaxInt64,
			Help: "Speed of the link in this process; 0 is no limit."},
	}
}
