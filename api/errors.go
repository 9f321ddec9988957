package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
)

// Error is an error with a code that programs act on and a hint for the person in front of them. It is the "error" of
// {"schema":1,"error":{"code","message","hint"}}.
type Error struct {
	Status  int    `json:"-"` // HTTP status; 0 is 500
	Code    string `json:"code"`
	Message string `json:"message"`
	Hint    string `json:"hint"`
}

// The codes of errors.
const (
	CodeBadRequest       = "bad_request"
	CodeForbiddenHost    = "forbidden_host"
	CodeForbiddenOrigin  = "forbidden_origin"
	CodeMethodNotAllowed = "method_not_allowed"
	CodeNotFound         = "not_found"
	CodeNotReady         = "not_ready"
	CodeTimeout          = "timeout"
	CodeRefused          = "refused"
	CodeInternal         = "internal"
)

// Error implements error: the message, and the hint where there is one.
func (e *Error) Error() string {
	if e.Hint == "" {
		return e.Message
	}
	return e.Message + " (" + e.Hint + ")"
}

// NotFound says that something named in a request does not exist; hint tells where existing names are listed.
func NotFound(hint, format string, args ...any) *Error {
	return &Error{Status: http.StatusNotFound, Code: CodeNotFound, Message: fmt.Sprintf(format, args...), Hint: hint}
}

// BadRequest says that a request cannot be understood; hint tells what is allowed.
func BadRequest(hint, format string, args ...any) *Error {
	return &Error{Status: http.StatusBadRequest, Code: CodeBadRequest, Message: fmt.Sprintf(format, args...), Hint: hint}
}

// Refused says that something is not done here or now, and hint what to do instead.
func Refused(hint, format string, args ...any) *Error {
	return &Error{Status: http.StatusConflict, Code: CodeRefused, Message: fmt.Sprintf(format, args...), Hint: hint}
}

// errorAnswer is the body of every answer that is not a success.
type errorAnswer struct {
	Schema int    `json:"schema"`
	Error  *Error `json:"error"`
}

// asError gives any error the form that is sent. A context's end is a time-out, whatever wrapped it.
func asError(err error) *Error {
	var known *Error
	switch {
	case errors.As(err, &known):
		if known.Status == 0 {
			c := *known
			c.Status = http.StatusInternalServerError
			return &c
		}
		return known
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return &Error{Status: http.StatusGatewayTimeout, Code: CodeTimeout, Message: err.Error(), Hint: "ask again"}
	default:
		return &Error{Status: http.StatusInternalServerError, Code: CodeInternal, Message: err.Error(), Hint: "the service's log tells more"}
	}
}
