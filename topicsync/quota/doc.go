// Package quota carries client quotas of a link's source over to its target, and tells which SCRAM users the target lacks.
//
// It owns how one limit follows: what lockstep wrote (the journal), what the target has, what the source has. A limit that
// somebody else set or changed on the target is left alone and reported, and only what lockstep wrote is ever removed.
// Secrets cannot be read from a broker: missing users are for an operator to make.
package quota
