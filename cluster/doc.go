// Package cluster says which lockstep cluster this process belongs to. A single node is a cluster of one: its identity
// is drawn once and kept in the data directory, which one process holds at a time.
//
// It knows nothing of Kafka.
package cluster
