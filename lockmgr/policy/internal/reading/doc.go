// Package reading reads the values of a decoded TOML document, and collects what is wrong
// with them and where. It knows how values are written; which keys there are, what they
// mean and what they may say its caller knows.
//
//	a duration          "30s", "1m30s", "0s"; never negative
//	an age              a duration, or days, as in "30d"
//	a size              a number of bytes, or a string with a unit, as in "10MiB"
//	a list of strings   ["a", "b"], or "a" for ["a"]
//	a word              one of a few that the caller knows
//
// A value that cannot be read is one error, and is read as nothing: nil, 0 or "". All
// errors of a document are told at once, by line.
//
// What the package writes, it reads back as the same value.
//
// The package is pure: a document comes as bytes. A Reader is for one goroutine.
package reading
