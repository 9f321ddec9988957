package kafka

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"lockstep/internal/model"
)

// Meta is what one broker knew about the cluster when it was asked.
type Meta struct {
	ClusterID  string
	Controller int32            // -1 when unknown
	Brokers    map[int32]string // id → host:port
	Racks      map[int32]string // id → rack, only for brokers that have one
	Topics     map[string]TopicMeta
}

// TopicMeta is one topic. With Err set (it does not exist, or may not be described) there are no Parts.
type TopicMeta struct {
	Name     string
	ID       model.TopicID // zero where the cluster has no topic ids
	Internal bool
	Err      error
	Parts    []PartMeta // by partition
}

// PartMeta is one partition. Leader is -1 while there is none; Err is then set too.
type PartMeta struct {
	Partition int32
	Leader    int32
	Epoch     int32 // -1 where the broker does not tell
	Err       error
	Replicas  []int32
	ISR       []int32
}

// Part returns one partition of a topic.
func (t TopicMeta) Part(partition int32) (PartMeta, bool) {
	i, ok := slices.BinarySearchFunc(t.Parts, partition, func(p PartMeta, n int32) int { return cmp.Compare(p.Partition, n) })
	if !ok {
		return PartMeta{}, false
	}
	return t.Parts[i], true
}

// ID returns the cluster's own id.
func (c *Cluster) ID(ctx context.Context) (string, error) {
	ctx, cancel := c.deadline(ctx)
	defer cancel()
	m, err := c.metadata(ctx, c.admin, []string{})
	return m.ClusterID, err
}

// Metadata asks a broker for the named topics, or for all topics when none is named. Topics are never created by
// asking. What is wrong with one topic or partition is in its Err; the returned error means that nothing was learnt.
func (c *Cluster) Metadata(ctx context.Context, topics ...string) (Meta, error) {
	ctx, cancel := c.deadline(ctx)
	defer cancel()
	if len(topics) == 0 {
		topics = nil
	}
	return c.metadata(ctx, c.admin, topics)
}

// metadata asks with the given client, which so learns the brokers' present addresses too. Nil topics means all of
// them, an empty list none. The context needs a deadline: the client repeats the question until then.
func (c *Cluster) metadata(ctx context.Context, cl *kgo.Client, topics []string) (Meta, error) {
	req := metadataRequest(topics)
	var err error
	for try := range metadataTries {
		var m Meta
		if m, err = askMetadata(ctx, cl, req, metadataPatience<<try); err == nil {
			return m, nil
		}
		if action, _ := Classify(err); action != Refresh && action != Retry || !wait(ctx, metadataPause<<try, nil) {
			break
		}
	}
	return Meta{}, fmt.Errorf("ask cluster %s for metadata: %w", c.cfg.Name, withCause(ctx, err))
}

// askMetadata puts the question once. The library asks any broker; one that hangs must not hold the answer back that
// the others would give at once.
func askMetadata(ctx context.Context, cl *kgo.Client, req *kmsg.MetadataRequest, patience time.Duration) (Meta, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	resp, err := req.RequestWith(ctx, cl)
	if err == nil {
		err = kerr.ErrorForCode(resp.ErrorCode)
	}
	if err != nil {
		return Meta{}, err
	}
	return readMeta(resp), nil
}

// The library gives up at once when the broker that it chose refuses the connection and its next choice is the same
// one; with one broker down another try finds a living one.
const (
	metadataTries    = 5
	metadataPatience = 2 * time.Second       // with the first try, and twice as long with each further one
	metadataPause    = 10 * time.Millisecond // before the second try, and twice as long before each further one
)

func metadataRequest(topics []string) *kmsg.MetadataRequest {
	req := kmsg.NewPtrMetadataRequest()
	if topics != nil {
		req.Topics = make([]kmsg.MetadataRequestTopic, 0, len(topics))
	}
	for _, name := range topics {
		t := kmsg.NewMetadataRequestTopic()
		t.Topic = kmsg.StringPtr(name)
		req.Topics = append(req.Topics, t)
	}
	return req
}

// withCause adds why a context ended to an error that only says that it ended.
func withCause(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil && !errors.Is(err, cause) {
		return fmt.Errorf("%w: %w", cause, err)
	}
	return err
}

func readMeta(resp *kmsg.MetadataResponse) Meta {
	m := Meta{
		Controller: resp.ControllerID,
		Brokers:    make(map[int32]string, len(resp.Brokers)),
		Racks:      map[int32]string{},
		Topics:     make(map[string]TopicMeta, len(resp.Topics)),
	}
	if resp.ClusterID != nil {
		m.ClusterID = *resp.ClusterID
	}
	for _, b := range resp.Brokers {
		m.Brokers[b.NodeID] = net.JoinHostPort(b.Host, strconv.Itoa(int(b.Port)))
		if b.Rack != nil && *b.Rack != "" {
			m.Racks[b.NodeID] = *b.Rack
		}
	}
	for i := range resp.Topics {
		if t := readTopic(&resp.Topics[i]); t.Name != "" {
			m.Topics[t.Name] = t
		}
	}
	return m
}

func readTopic(r *kmsg.MetadataResponseTopic) TopicMeta {
	t := TopicMeta{ID: r.TopicID, Internal: r.IsInternal, Err: kerr.ErrorForCode(r.ErrorCode)}
	if r.Topic != nil {
		t.Name = *r.Topic
	}
	for _, p := range r.Partitions {
		pm := PartMeta{
			Partition: p.Partition, Leader: p.Leader, Epoch: p.LeaderEpoch,
			Err: kerr.ErrorForCode(p.ErrorCode), Replicas: p.Replicas, ISR: p.ISR,
		}
		if pm.Leader < 0 && pm.Err == nil {
			pm.Err = kerr.LeaderNotAvailable
		}
		t.Parts = append(t.Parts, pm)
	}
	slices.SortFunc(t.Parts, func(a, b PartMeta) int { return cmp.Compare(a.Partition, b.Partition) })
	return t
}

// leaderOf finds the leader of a partition in the metadata, or says why there is none. A leader that only has an
// error for a replica (REPLICA_NOT_AVAILABLE) is a leader.
func (m Meta) leaderOf(p Part) (leaderInfo, error) {
	t, ok := m.Topics[p.Topic]
	switch {
	case !ok:
		return leaderInfo{}, kerr.UnknownTopicOrPartition
	case t.Err != nil:
		return leaderInfo{}, t.Err
	case !p.ID.IsZero() && !t.ID.IsZero() && p.ID != t.ID:
		return leaderInfo{}, fmt.Errorf("topic %s has id %s, expected %s: %w: %w", p.Topic, t.ID, p.ID, ErrRecreated, kerr.UnknownTopicID)
	}
	pm, ok := t.Part(p.Partition)
	if !ok {
		return leaderInfo{}, kerr.UnknownTopicOrPartition
	}
	if pm.Leader < 0 {
		return leaderInfo{}, pm.Err
	}
	return leaderInfo{Leader: Leader{Broker: pm.Leader, Epoch: pm.Epoch}, id: t.ID}, nil
}

// leaderInfo is a leader together with the topic's id at that time.
type leaderInfo struct {
	Leader
	id model.TopicID
}
