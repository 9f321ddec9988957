// Package config reads lockstep's settings: defaults, then the YAML file, then environment variables, then flags.
//
// One table (Keys) says everything about a key: its path, type, default, unit, help, allowed values and check.
// Parsing, the search for unknown keys, defaults, the checks, the commented reference and the documentation are all
// made from it. Load reports every fault at once, each with its place. The package opens no network connection, keeps
// no goroutine and changes nothing; it reads the settings file and, to see that they are there, the secrets and
// certificates that the settings name. It knows neither TLS nor SASL nor Kafka's protocol.
//
// Invariants: a *Config that Load returned is complete and checked, and nobody changes it afterwards. No error text,
// no printed form and no encoded form of anything in this package contains the value of a Secret.
package config
