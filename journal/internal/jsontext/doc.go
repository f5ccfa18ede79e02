// Package jsontext writes JSON as encoding/json writes it, without reflection and
// without allocating: a record of a log has the same bytes whoever has written it, and
// each change to a file writes some.
//
// The package is pure: text is appended to a buffer that the caller has. Which fields a
// record has, and in which order, its own package knows.
package jsontext
