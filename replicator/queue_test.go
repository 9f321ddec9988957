package replicator

import (
	"context"
	"testing"
)

func TestQueue_HoldsALaneOnceAndInOrder(t *testing.T) {
	t.Parallel()
	q := newQueue()
	a, b := &lane{}, &lane{}
	q.push(a)
	q.push(b)
	q.push(a)
	for i, want := range []*lane{a, b} {
		if got, ok := q.pop(); !ok || got != want {
			t.Fatalf("pop %d is not what was pushed", i)
		}
	}
	if _, ok := q.pop(); ok {
		t.Fatal("a lane that was pushed twice came up twice")
	}
	q.push(a)
	if got, ok := q.wait(t.Context()); !ok || got != a {
		t.Fatal("a lane did not come up again after it had been popped")
	}
}

func TestQueue_WaitEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, ok := newQueue().wait(ctx); ok {
		t.Fatal("an empty queue gave a lane")
	}
}

func TestBudget_RoomComesBackWithTheLastReference(t *testing.T) {
	t.Parallel()
	b := NewBudget(100)
	buf := newBuffer(b, 100)
	second := buf.hold()
	got := make(chan int64)
	go func() {
		n, _ := b.room(t.Context())
		got <- n
	}()
	buf.release()
	select {
	case n := <-got:
		t.Fatalf("%d bytes of room while a batch still points into the answer", n)
	default:
	}
	second.release()
	if n := <-got; n != 100 {
		t.Fatalf("room is %d, want 100", n)
	}
}
