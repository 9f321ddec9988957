// Package pause waits, without keeping anybody from ending.
package pause

import (
	"context"
	"time"
)

// For returns true after d, or false as soon as ctx has ended.
func For(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}
