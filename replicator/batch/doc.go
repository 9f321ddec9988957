// Package batch knows the bytes of Kafka's record formats: it parses headers, cuts fetch answers into batches,
// stamps a batch for its way to the target, checks what a broker would refuse, and decodes and encodes records.
//
// Everything here is a function over bytes. The package does no I/O, holds no connection, starts no goroutine and
// keeps no state beyond [Codecs], whose methods may be called from many goroutines.
//
// Invariants:
//   - a batch that passes through keeps every byte behind its 61-byte header, and its checksum is carried over by
//     arithmetic ([Stamp]): a bit that flips on the way is still found by the target broker;
//   - nothing is decoded before its checksum was verified ([Codecs.Decode]): encoding anew cannot launder damage;
//   - nothing is left out silently: bytes that cannot be read are an error that wraps [ErrCorrupt].
//
// Offsets are source offsets unless a name says otherwise, timestamps are milliseconds since 1970, -1 is "none".
package batch
