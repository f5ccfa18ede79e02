// Package validate judges the content of a file before it becomes a version.
//
// Check looks at all of the content and either accepts it or returns a *Refusal
// that says which validator refused it, where and why. It changes nothing, and
// knows neither policies nor sessions: what is to hold, and what becomes of
// content that is refused, is the caller's business.
//
// # The validators
//
// They are asked in this order, and the first that refuses decides:
//
//	max-size    not larger than Options.MaxSize bytes
//	non-empty   not empty, nor white space alone
//	json        exactly one JSON value (RFC 8259)
//	jsonl       every line that is not blank is one JSON value; none need be
//	toml        a TOML document
//	yaml        any number of YAML documents
//	command     an external program accepts it
//
// The JSON that is accepted is that of encoding/json.Valid: what RFC 8259 says,
// and an object may have a key twice. Two things are refused beyond that.
// Content that is not valid UTF-8 (RFC 8259, 8.1), and a byte order mark: RFC
// 8259 lets a parser ignore one, but the usual ones do not. Empty or blank
// content is no value and refused; an empty file is valid JSON Lines, TOML and
// YAML, so those want non-empty beside them where that is not meant. In JSON
// Lines a value cannot go on in the next line, and the last line may lack its
// newline.
//
// YAML may be in UTF-8 or UTF-16. Aliases must refer to an anchor; what they
// and tags stand for is not worked out, so keys may be there twice.
//
// # Size
//
// JSON is read as a stream in bounded memory. TOML and YAML have to be in memory
// as a whole, at many times their size: content larger than MaxWhole is refused
// by them, and so is what is nested too deep. What is larger than a few pages is
// parsed in a process of its own, as nobody if we are root, with limits of memory
// and processor time: content that needs more is refused. Each user has places of
// its own for that, so that one user's checks keep nobody else's waiting.
//
// # The command
//
// It is run without a shell. Exit status 0 accepts; any other end refuses, and
// so do a command that cannot be run and one that has not ended after
// Options.Timeout, which is killed with its process group. What it says, on
// either output, goes into the refusal.
//
//	standard input   the content: a sealed copy in memory, or if it is long, a
//	                 pipe; there is no way from it to the file
//	LATCHFS_FILE     the name that Check was given
//	PATH, LANG       fixed; nothing else of our environment is handed down
//	directory        "/"
//	descriptors      0, 1 and 2 alone
//	umask            022
//	session          its own, without a terminal
//	user             Options.Credential, if it is set
//
// As another user than us it is confined: it gains no privileges by what it runs,
// and has limits of memory, processor time and processes. That user's own content
// is refused, since its writer could tell the command what to answer.
//
// It may read whatever its user may. It must not wait for somebody who waits for
// the content to be accepted: to write the file that it judges, through a mount
// where that takes a lock, is to wait for its own end, until the timeout.
package validate
