// Package probe tries, on a scratch topic of a real target, what lockstep relies on in brokers, and says which of its
// promises hold there.
//
// It writes to nothing but topics whose names begin with [TopicPrefix] and deletes its own at the end, also when it is
// interrupted. Each fact is tried with the product's own code for batches, terms and seals, one after the other, on one
// partition. What a fact is, and how brokers answered when it was first seen, stands in the tests of
// internal/kafkatest, which try the same facts without any code of the product.
//
// It starts no goroutine.
package probe
