package claimfile

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"latchfs/lockmgr/policy/lockfile"
)

// maxShown is how many bytes of a text stand in a line.
const maxShown = 200

// LogLine is the line that a system writes about a claim: that it is removed, if the
// verdict is that it is stale, or else that it is heeded. A record of nil is a malformed
// one; MalformedLine says more about one that is heeded.
func LogLine(format lockfile.Format, r *Record, v Verdict) string {
	if r == nil {
		r = &Record{Holder: "unknown", Name: "unknown"}
	}
	who := clean(r.Holder)
	switch {
	case format == lockfile.Beads && v.Stale: // B4
		return "Removed stale lock (" + who + "), proceeding with sync"
	case format == lockfile.Beads:
		return "Skipping database (locked by " + who + ")"
	case format == lockfile.Clawdbot && v.Stale: // W5
		return "Breaking stale lock: " + v.Reason
	case format == lockfile.Clawdbot:
		line := "Held by session '" + who + "'"
		if r.Operation != "" {
			line += " for operation '" + clean(r.Operation) + "'"
		}
		return line
	case format == lockfile.LockV1 && v.Stale:
		return "Stale lock " + clean(r.Name) + " of request " + who + " removed: " + v.Reason
	case format == lockfile.LockV1:
		return "Lock " + clean(r.Name) + " is held by " + who + " (actor " + clean(r.Actor) + ", intent " + clean(r.Operation) + ")"
	case v.Stale:
		return "Reclaimed lock of " + who + ": " + v.Reason
	}
	return "Locked by " + who
}

// MalformedLine is the line about a claim that cannot be read and is heeded (B4).
func MalformedLine(format lockfile.Format, err error) string {
	if format == lockfile.Beads {
		return "Skipping database (lock check failed: " + err.Error() + ")"
	}
	return "Lock check failed: " + err.Error()
}

// clean makes a text of a record fit for a line: one line, printable, and not too long.
func clean(s string) string {
	var b strings.Builder
	for i, r := range s {
		if b.Len() >= maxShown {
			b.WriteString("…")
			break
		}
		_, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			b.WriteString(`\x` + strconv.FormatUint(uint64(s[i])|0x100, 16)[1:])
		case r == '\\' || !strconv.IsPrint(r):
			quoted := strconv.QuoteRuneToASCII(r)
			b.WriteString(quoted[1 : len(quoted)-1])
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}
