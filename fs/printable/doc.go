// Package printable writes text and JSON of which nothing can move a terminal's cursor,
// forge a line or turn the direction of what is read: whatever a name, a command line
// or a reason contains never reaches a terminal as a control character.
//
// It is pure: bytes in, bytes out, without I/O, clock or mutex, and it does not know
// what the text is about. Printable is what strconv.IsPrint says.
//
// # Text
//
// In text everything unprintable, and the backslash, is escaped as in bash's $'...':
// \n, \t, \r, \\, \xNN for a byte, \uNNNN and \UNNNNNNNN for a character. A line without
// such characters stays as it is, and $'...' reads every other one back as it was.
//
// # JSON
//
// In JSON a string that is valid UTF-8 is exact, with everything unprintable as JSON's
// \uNNNN; one that is not is shown in the text's escaped form. Where the bytes matter
// a field NAME has them beside it in NAME_base64 (Writer.Raw).
package printable
