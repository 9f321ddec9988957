package checkpoint

import (
	"encoding/json"
	"fmt"

	"lockstep/internal/statelog"
)

// The first parts of keys in the state topic. What is stored of a group is one record for each of its topics, or several
// for a topic of very many partitions, so that a group with very many positions does not outgrow a record.
const (
	kindBase    = "group"   // group/<group>/<topic>, group/<group>/<topic>/<slice>
	kindHistory = "history" // history/<group>/<topic>/<slot>
)

// recordVersion is the version of both kinds. Fields may be added in the same version when readers that do not know them
// still read the truth.
const recordVersion = 1

// partitionOf returns the partition of the state topic that holds all about a group.
func partitionOf(group string) int32 { return statelog.PartitionOf(group, 0) }

// encode encodes a value of this package; they all can be.
func encode(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("encode %T: %v", v, err))
	}
	return b
}
