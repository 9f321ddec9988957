package drift

import (
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"

	"lockstep/internal/grants"
)

// BrokerError returns a broker's error with its own words, nil for code 0.
func BrokerError(code int16, message *string) error {
	err := kerr.ErrorForCode(code)
	if err == nil || message == nil || *message == "" {
		return err
	}
	return fmt.Errorf("%w: %s", err, *message)
}

// Grant returns the command that adds a permission. Server and principal are the operator's to fill in: a client does
// not know which principal the broker took it for.
func Grant(operation, resource string) string { return "grant it: " + grants.Hint(operation, resource) }

// Denied reports whether a broker refused for a missing permission.
func Denied(err error) bool {
	return errors.Is(err, kerr.TopicAuthorizationFailed) || errors.Is(err, kerr.ClusterAuthorizationFailed) || errors.Is(err, kerr.GroupAuthorizationFailed)
}

// Unsupported reports whether a cluster does not know a request at all.
func Unsupported(err error) bool { return errors.Is(err, kerr.UnsupportedVersion) }
