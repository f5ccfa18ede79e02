// Package audit keeps the audit trail of a data root: what latchfs did and what it
// refused, one JSON object a line, for people and programs to read.
//
// The trail lies in the state directory. The package does file I/O there and nowhere
// else; it knows neither the journal, which says what a crash has left unfinished, nor
// who may read which line.
//
// # Files
//
//	events.jsonl           the part that is written to
//	events.jsonl.1         the part before it
//	events.jsonl.2         what is kept of the parts before, by shares of the users
//	events.new             a part that is being made; worthless after a crash
//	events.leaving         events.jsonl.1 while its lines enter events.jsonl.2
//	corrupt-events.jsonl   lines that a repair took out
//
// When events.jsonl would grow past its bound it becomes events.jsonl.1. Of what that
// held, and of what was kept before, each user who did something keeps the newest lines,
// up to an equal share of half the bound: whoever does most loses first, and pushes
// nobody else's events out. So the trail has two and a half times the bound at most.
//
// A rotation makes the new events.jsonl.2 as events.new, calls events.jsonl.1
// events.leaving, and gives events.new its name. So after a crash events.leaving tells
// that a rotation was under way, and events.new that the lines have not entered
// events.jsonl.2 yet: no line enters it twice.
//
// # Lines
//
// A line has the keys timestamp (RFC 3339, UTC) and event, the fields of the Event that
// are set, and the keys of its Detail, all in order. What a terminal may obey is escaped.
// A line is bounded: of an event that would have a longer one texts are cut and lists
// left out, and "shortened" says so.
//
// Lines are not synced, but those of the kept part before it gets its name. A crash of the
// process loses nothing, a crash of the machine the end: what it leaves of a line, and zeros,
// Open cuts off.
//
// # Mutex
//
// Trail.mu guards the parts that are open, their lengths and positions. Append holds it
// while it writes and rotates, and readers of a View hold it for reading while they read.
// No other mutex is taken while it is held.
package audit
