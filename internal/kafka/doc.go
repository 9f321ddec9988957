// Package kafka owns everything that touches a broker's wire: clients and their connections, TLS and SASL, who
// leads a partition, the order of requests on one connection, incremental fetch sessions, and what an error means.
//
// It is the only place that knows how lockstep authenticates. It does not know links, lanes or offset maps.
//
// Every call that asks something has a deadline of its own; only the produce and fetch loops do not, because a
// request whose context ends closes the connection together with everything that is outstanding on it. Metadata is
// always asked from a broker and never taken from the client library's cache, which may be seconds old.
//
// Goroutines: each kgo.Client runs its own; Leaders.Run and Pipeline.Run are blocking loops of their caller; a
// Pipeline starts one short goroutine per outstanding request, which ends with it. A Session has none and does no
// input or output.
package kafka
