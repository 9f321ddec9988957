package main

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"

	"lockstep/config"
)

// settings are where a running service has its configuration from: what is in the file can be read again, variables and
// flags stay as they were given.
type settings struct {
	source config.Source // without the file's text
	sight  sight         // what first was made from
	first  *config.Config
}

// newSettings reads the configuration for the first time.
func newSettings(source config.Source) (*settings, error) {
	s := &settings{source: source}
	if source.File != "" {
		s.sight = newSight(os.ReadFile(source.File))
	}
	var err error
	s.first, err = s.load(s.sight)
	return s, err
}

// load makes a configuration from what was seen of the file. It does not read the file itself, which may be another one
// by now.
func (s *settings) load(seen sight) (*config.Config, error) {
	if seen.err != nil {
		return nil, &config.Errors{Faults: []config.Fault{{Place: config.Place{File: s.source.File}, What: "cannot be read: " + seen.err.Error()}}}
	}
	source := s.source
	source.Text = seen.text
	return config.Load(source)
}

// look reads the file again. A pipe, which cannot be read twice, is an error.
func (s *settings) look() sight {
	if s.source.File == "" {
		return sight{}
	}
	info, err := os.Stat(s.source.File)
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("it is not a regular file, so that it cannot be read twice")
	}
	if err != nil {
		return newSight(nil, err)
	}
	return newSight(os.ReadFile(s.source.File))
}

// sight is the configuration file's content at one moment. It goes by content: a file that is replaced by a link to
// another folder, as Kubernetes does it, changes no time stamp that could be relied on.
type sight struct {
	text []byte
	hash string // of the text; "" where there is no file, or it could not be read
	err  error
}

func newSight(text []byte, err error) sight {
	if bad, ok := errors.AsType[*os.PathError](err); ok {
		err = bad.Err // the fault names the file
	}
	if err != nil {
		return sight{err: err}
	}
	sum := sha256.Sum256(text)
	return sight{text: append([]byte{}, text...), hash: hex.EncodeToString(sum[:])}
}
