package main

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"lockstep/internal/model"
	"lockstep/topicsync"
)

// keepTopics keeps the target's topics as the source's are, except while the source is another one than was copied from:
// what it has must not get mixed with that.
func (l *link) keepTopics(ctx context.Context) error {
	for ctx.Err() == nil {
		replaced, changed := l.manager.Replaced()
		if replaced != nil {
			l.ready.Store(true) // there is nothing to wait for: an operator has to look
			select {
			case <-changed:
			case <-ctx.Done():
			}
			continue
		}
		if err := l.syncUntil(ctx, changed); err != nil {
			return err
		}
	}
	return nil
}

// syncUntil runs passes over the topics until ctx ends or changed is closed.
func (l *link) syncUntil(ctx context.Context, changed <-chan struct{}) error {
	ctx, cancel := context.WithCancel(ctx)
	var watching sync.WaitGroup
	defer watching.Wait()
	defer cancel()
	watching.Go(func() {
		defer cancel()
		select {
		case <-changed:
		case <-ctx.Done():
		}
	})
	err := l.syncer.Once(ctx)
	if err != nil && ctx.Err() == nil && !errors.Is(err, topicsync.ErrClusterChanged) {
		l.log.Warn("not every topic is ready", "error", err)
	}
	if !errors.Is(err, topicsync.ErrClusterChanged) && ctx.Err() == nil {
		l.ready.Store(true)
		err = l.syncer.Run(ctx)
	}
	if !errors.Is(err, topicsync.ErrClusterChanged) {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	if replaced, lerr := l.manager.LookAtSource(ctx); lerr != nil || !replaced {
		return errors.Join(err, lerr) // it is the target
	}
	l.syncer.Reset()
	return nil
}

// copyOnceFrom is copyOnce from the source that was copied from before; another one is refused.
func (l *link) copyOnceFrom(ctx context.Context) error {
	if r, _ := l.manager.Replaced(); r != nil {
		return l.refuseReplaced(r.Detail)
	}
	err := l.copyOnce(ctx)
	if errors.Is(err, topicsync.ErrClusterChanged) {
		_, _ = l.manager.LookAtSource(ctx) // what it says is asked for right below
	}
	if r, _ := l.manager.Replaced(); r != nil {
		return l.refuseReplaced(r.Detail)
	}
	return err
}

func (l *link) refuseReplaced(detail string) error {
	return refused(fmt.Errorf("the source was replaced: %s; %s", detail, model.Remedy(model.ReasonSourceReplaced, model.Lane{Link: l.cfg.Name})))
}
