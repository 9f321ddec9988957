// Package api is lockstep over HTTP: the JSON types, the handler that serves them, the listener, and the client that
// the commands use.
//
// The types here are what the command line prints with `-o json` as well: there is one form of every answer. The
// package computes nothing about Kafka; it declares small interfaces for what it shows (Backend), cmd/lockstep
// implements them, and Client implements them too, so that a command does not see whether it asks a service or reads
// the target itself. It owns no goroutine but those of net/http, and those end with Serve.
package api
