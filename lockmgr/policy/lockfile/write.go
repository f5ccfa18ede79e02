package lockfile

import (
	"bytes"
	"slices"

	"latchfs/lockmgr/policy/internal/reading"
)

// Write writes out a convention, with what it has from its format. Read reads it back as
// the same convention.
func Write(b *bytes.Buffer, c *Convention) {
	reading.WriteTable(b, Table, c.origin)
	reading.WriteList(b, keyGlob, c.Glob)
	reading.WriteText(b, keyFormat, string(c.Format))
	reading.WriteText(b, keyCovers, string(c.Covers))
	reading.WriteText(b, keyRoot, c.Root)
	reading.WriteText(b, keyTree, c.Tree)
	lacks, _ := lacksOf(c.Format)
	for _, term := range []struct{ key, value string }{
		{keyTTL, c.TTL.String()}, {keyForeignTTL, c.ForeignTTL.String()},
		{keyOnStale, string(c.OnStale)}, {keyMalformed, string(c.Malformed)},
	} {
		if !slices.Contains(lacks, term.key) {
			reading.WriteText(b, term.key, term.value)
		}
	}
}
