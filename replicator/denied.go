package replicator

import (
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
)

// denied puts before what a broker refused which permission is missing, on which topic of which cluster: brokers do not
// tell. Other refusals stay as they are.
func denied(err error, operation, topic, cluster, detail string) string {
	if !errors.Is(err, kerr.TopicAuthorizationFailed) {
		return detail
	}
	return fmt.Sprintf("%s on topic %s of cluster %s is not allowed: %s", operation, topic, cluster, detail)
}
