package kafkatest

import (
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// EditBatch changes, in place, the stored bytes of the batch that holds an offset, as a failing disk does. The broker may
// run: it serves what stands in its file. A broker that was killed would cut its log at a damaged batch when it starts
// again, one that was stopped cleanly does not look.
func (c *Cluster) EditBatch(t testing.TB, node int32, topic string, partition int32, offset int64, edit func(batch []byte)) {
	t.Helper()
	file, at, b := c.storedBatch(t, node, topic, partition, offset)
	edit(b)
	f, err := os.OpenFile(file, os.O_WRONLY, 0)
	if err != nil {
		t.Fatalf("edit batch of %s/%d: %v", topic, partition, err)
	}
	defer f.Close()
	if _, err := f.WriteAt(b, at); err != nil {
		t.Fatalf("edit batch of %s/%d: %v", topic, partition, err)
	}
}

// CutLog makes a node that was killed lose the end of a partition's log, from the batch that holds an offset on, as it does
// when the power fails before its disk wrote. Restart brings it back with the shorter log.
func (c *Cluster) CutLog(t testing.TB, node int32, topic string, partition int32, offset int64) {
	t.Helper()
	if !c.node(node).proc.exited() {
		t.Fatalf("cut log of %s/%d: node %d runs", topic, partition, node)
	}
	file, at, _ := c.storedBatch(t, node, topic, partition, offset)
	if err := os.Truncate(file, at); err != nil {
		t.Fatalf("cut log of %s/%d: %v", topic, partition, err)
	}
	for _, pattern := range []string{"*.index", "*.timeindex", "*.txnindex", "*.snapshot"} { // made anew from the log
		files, _ := filepath.Glob(filepath.Join(filepath.Dir(file), pattern))
		for _, f := range files {
			if err := os.Remove(f); err != nil {
				t.Fatalf("cut log of %s/%d: %v", topic, partition, err)
			}
		}
	}
}

// storedBatch finds the batch that holds an offset, in the partition's only segment.
func (c *Cluster) storedBatch(t testing.TB, node int32, topic string, partition int32, offset int64) (file string, at int64, batch []byte) {
	t.Helper()
	dir := filepath.Join(c.node(node).dataDir(), fmt.Sprintf("%s-%d", topic, partition))
	segments, _ := filepath.Glob(filepath.Join(dir, "*.log"))
	if len(segments) != 1 {
		t.Fatalf("look into %s: want one segment, found %s", dir, strings.Join(segments, " "))
	}
	log, err := os.ReadFile(segments[0])
	if err != nil {
		t.Fatalf("look into %s: %v", dir, err)
	}
	for b := log; len(b) >= 61; {
		size := int(binary.BigEndian.Uint32(b[8:])) + 12
		if size < 61 || len(b) < size {
			break // space that was allocated and is not used yet
		}
		if last := int64(binary.BigEndian.Uint64(b)) + int64(binary.BigEndian.Uint32(b[23:])); last >= offset {
			return segments[0], int64(len(log) - len(b)), b[:size]
		}
		b = b[size:]
	}
	t.Fatalf("look into %s: no batch holds offset %d", dir, offset)
	return "", 0, nil
}

// Wipe makes another, empty cluster out of this one, with another id, at the same addresses.
func (c *Cluster) Wipe(t testing.TB) {
	t.Helper()
	for _, n := range c.nodes {
		if err := n.proc.kill(); err != nil {
			t.Fatalf("wipe node %d: %v", n.id, err)
		}
	}
	c.id = newUUID()
	for _, n := range c.nodes {
		if err := os.RemoveAll(n.dataDir()); err != nil {
			t.Fatalf("wipe node %d: %v", n.id, err)
		}
		if err := n.format(c.in, c.id); err != nil {
			t.Fatalf("wipe node %d: %v", n.id, err)
		}
		if err := n.start(c.in, c.opts.HeapMB); err != nil {
			t.Fatalf("wipe node %d: %v", n.id, err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), c.opts.ReadyIn)
	defer cancel()
	if err := c.awaitReady(ctx); err != nil {
		t.Fatalf("wipe: %v", err)
	}
}
