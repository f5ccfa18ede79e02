package journal

import (
	"encoding/json"
	"unicode/utf8"
)

// Severity says who has to do something about a Finding.
type Severity string

// The severities.
const (
	// Info: harmless, or as it has to be after a crash; nothing depends on it.
	Info Severity = "info"
	// Recoverable: left by an unclean stop; the next mount deals with it.
	Recoverable Severity = "recoverable"
	// Problem: no crash of the daemon or the machine leaves this. It stays
	// until it is repaired.
	Problem Severity = "problem"
)

// Finding is one thing that a check has come across. Its three texts are for
// people and end without a full stop.
type Finding struct {
	Severity Severity
	Kind     string // what it is, in a fixed word or two with hyphens
	Path     string // what it is about, relative to the data root
	Offset   int64  // where in that file, in bytes; -1: the file as a whole
	What     string // what was found
	Means    string // what that means, and what the next mount does about it
	Done     string // what was done about it; "": nothing
}

// MarshalJSON renders f as one flat object. A path that is not valid UTF-8
// stands in path_base64 as well.
func (f Finding) MarshalJSON() ([]byte, error) {
	wire := struct {
		Severity Severity `json:"severity"`
		Kind     string   `json:"kind"`
		Path     string   `json:"path"`
		Raw      []byte   `json:"path_base64,omitempty"`
		Offset   *int64   `json:"offset,omitempty"`
		What     string   `json:"what"`
		Means    string   `json:"means"`
		Done     string   `json:"done,omitempty"`
	}{Severity: f.Severity, Kind: f.Kind, Path: f.Path, What: f.What, Means: f.Means, Done: f.Done}
	if !utf8.ValidString(f.Path) {
		wire.Raw = []byte(f.Path)
	}
	if f.Offset >= 0 {
		wire.Offset = &f.Offset
	}
	return json.Marshal(wire)
}
