package mm2

// Names makes the topics' names as MirrorMaker 2's replication policies do: DefaultReplicationPolicy and
// IdentityReplicationPolicy name their own topics alike.
type Names struct {
	Source, Target string // the clusters' names, which are MirrorMaker's aliases
	Separator      string // replication.policy.separator; "" is a dot
}

func (n Names) sep() string {
	if n.Separator == "" {
		return "."
	}
	return n.Separator
}

// Checkpoints is the topic, on the target, that says where groups of the source stand.
func (n Names) Checkpoints() string { return n.Source + n.sep() + "checkpoints" + n.sep() + "internal" }

// OffsetSyncs is the topic of offset syncs. It carries the name of the cluster that it is not on.
func (n Names) OffsetSyncs(onSource bool) string {
	other := n.Source
	if onSource {
		other = n.Target
	}
	return "mm2-offset-syncs" + n.sep() + other + n.sep() + "internal"
}

// Heartbeats is the topic, on the target, into which the link says that it lives. No separator changes it.
func (n Names) Heartbeats() string { return heartbeats }

// RemoteHeartbeats is the topic, on the target, by which Java's readers find out that the source is upstream of it: in
// MirrorMaker a copy of the source's own heartbeats.
func (n Names) RemoteHeartbeats() string { return n.Source + n.sep() + heartbeats }

const heartbeats = "heartbeats"
