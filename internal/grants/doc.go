// Package grants knows which permissions of Kafka a link needs on each of its clusters, finds out which of them its user
// has, and writes those that are missing as lines of kafka-acls.sh.
//
// [Needed] is pure: from a link's settings to the least that it can do everything with. [Look] asks a cluster, without the
// right to read its permissions: where something exists brokers tell what a user may do with it, and where it does not,
// requests are sent that brokers judge before they look for it, and that change nothing. [Lines] prints.
//
// It knows nothing of topics' contents, of groups' members or of who joins it. It starts no goroutine.
package grants
