// Package kafkatest gives tests real Kafka brokers, pairs of fake ones, and independent eyes.
//
// It owns: fetching a broker's class path, starting and hurting broker processes, a TCP proxy, producers for every
// kind of log, a comparer that reads both clusters without any code of the product, and longhand record batches.
// It knows nothing of the product's packages, so that a fault there cannot hide itself here.
//
// Every broker process belongs to the test process: it is stopped by its process id, and it dies with the test
// process even when that is killed. The files facts_*_test.go hold what the product relies on in brokers, as tests
// of the brokers themselves: a new Kafka version that behaves otherwise is noticed there.
package kafkatest
