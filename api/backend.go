package api

import (
	"context"

	"lockstep/internal/model"
)

// Backend is everything that Handler shows. Its methods are called by many goroutines at a time; an *Error that they
// return is shown as it is, any other error as "internal".
type Backend interface {
	StatusReader
	LaneReader
	GroupReader
	TopicReader
	GapReader
	Translator
	Carer
	Readiness
}

// StatusReader tells the links, in the order of the configuration.
type StatusReader interface {
	Links(ctx context.Context) ([]Link, error)
}

// LaneReader tells the lanes of a link ordered by topic and partition, or one of them. A link or lane that does not
// exist is a NotFound error.
type LaneReader interface {
	Lanes(ctx context.Context, link string) ([]Lane, error)
	Lane(ctx context.Context, link, topic string, partition int32) (LaneDetail, error)
}

// GroupReader tells the consumer groups of a link in order, those that are left out too; one of them with its positions;
// or where one stood over time, oldest first. A link or group that does not exist is a NotFound error.
type GroupReader interface {
	Groups(ctx context.Context, link string) ([]Group, error)
	Group(ctx context.Context, link, group string) (GroupDetail, error)
	GroupHistory(ctx context.Context, link, group string) ([]GroupMoment, error)
}

// TopicReader tells the topics of a link's source in order, those that are left out too, and compares everything that
// belongs to topics on both sides: of the named ones, or of all and what belongs to no single topic. A link or topic that
// does not exist is a NotFound error.
type TopicReader interface {
	Topics(ctx context.Context, link string) ([]Topic, error)
	Diff(ctx context.Context, link string, topics []string) (Diff, error)
}

// GapReader tells the gap ledger of a link, oldest first.
type GapReader interface {
	Gaps(ctx context.Context, link string) ([]Gap, error)
}

// Translator translates offsets of a link, one answer for each position and in the same order; behind them one for each
// position of the groups asked for, by group, topic and partition. A position that has no answer is OffsetUnknown, not
// an error; a group that is not known is NotFound.
type Translator interface {
	Translate(ctx context.Context, link string, req TranslateRequest) ([]Offset, error)
}

// ConfigReader tells which configuration is in force. It is for a Backend that runs by one; the others have none to tell.
type ConfigReader interface {
	Config(ctx context.Context) (ConfigStatus, error)
}

// Carer does what an operator orders of a link. It returns when each subject has taken the order, was refused or failed,
// or when ctx ends; a step that was not done by then says so in its error. An error of the call means that nothing was
// done at all.
type Carer interface {
	Order(ctx context.Context, link string, o model.Order) ([]model.OrderStep, error)
}

// Readiness says whether this instance does its work: nil, or what it waits for.
type Readiness interface {
	Ready(ctx context.Context) error
}
