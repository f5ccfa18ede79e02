// Package merge joins what two writers have made of the same content: theirs,
// which became the file first, and mine, whose writer had only seen the base
// of both. Merge takes bytes and returns bytes; it does no I/O, has no clock and
// keeps nothing. What it cannot join it refuses with a *Conflict, and never
// guesses: there are no conflict markers.
//
// Where mine or theirs is the base, or both are the same, the result is the other
// one byte by byte, whatever it holds. Otherwise the Kind decides.
//
// # Text
//
// Three-way by lines. Changes of different lines of the base are joined, even
// of neighbouring ones; a change that both have made is one change. What is refused:
// two changes of one line, different lines inserted in one place, and an
// insertion inside or beside what the other side has deleted. A last line
// without its newline is another line than the same with it.
//
// # JSON
//
// Objects are joined by key, at any depth. An object added by both sides under
// the same key is the union of the two. A value deleted on one side and changed
// on the other is refused. Arrays are joined
//
//	by id        if every item of all three is an object with the same one of the
//	             fields id, _id, uuid, guid, key or name, a string or number that
//	             no other item of its array has;
//	in sequence  otherwise: items put in, taken out and replaced, the latter by
//	             position; items replaced on both sides are joined themselves.
//
// What both append to an array is kept, theirs first. Two values are the same if
// they mean the same: however a string is escaped, a number is spelled and an
// object is ordered. They are written as they were in the file that they come
// from, numbers of any length included; indentation, spacing and the order of
// keys are those of theirs, or of mine where only mine has changed the style. In
// an object whose keys are sorted on both sides they stay sorted.
//
// Content that is no JSON, or has a key twice in one object, is refused. So is a
// result that would not be valid JSON.
//
// # JSON Lines
//
// The records are joined like the items of an array, one per line.
//
// # Bounds
//
// More than MaxSize bytes on any side, more values or a deeper nesting of JSON
// than some limit, or files with too little in common are refused. Merge takes
// at most a few seconds and a few hundred megabytes.
package merge
