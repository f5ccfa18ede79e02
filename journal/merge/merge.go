package merge

import (
	"bytes"
	"path"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Kind is how content is taken apart.
type Kind uint8

// The kinds; see the package comment.
const (
	Text Kind = iota
	JSON
	JSONLines
)

// String is the kind as people call it.
func (k Kind) String() string {
	switch k {
	case JSON:
		return "JSON"
	case JSONLines:
		return "JSON Lines"
	case Text:
	}
	return "text"
}

// KindOf tells the kind of a file from its name: .json, .jsonl and .ndjson, in
// any case; anything else is text.
func KindOf(name string) Kind {
	switch strings.ToLower(path.Ext(name)) {
	case ".json":
		return JSON
	case ".jsonl", ".ndjson":
		return JSONLines
	}
	return Text
}

// MaxSize is how many bytes each of the contents may have.
const MaxSize = 16 << 20

// Conflict is the error of contents that cannot be joined.
type Conflict struct {
	// Line is where in mine, from 1; 0: not known, or everywhere.
	Line int
	// Pointer is where in the JSON value of mine, or in that of the line: a JSON
	// pointer (RFC 6901). It holds names from the content.
	Pointer string
	// Reason is the cause in a few words. It tells nothing of the content.
	Reason string
}

// Error is the place and the reason.
func (c *Conflict) Error() string {
	if where := c.Where(); where != "" {
		return where + ": " + c.Reason
	}
	return c.Reason
}

// Where is the place as "line 3", "/a/0" or "line 3, /a/0"; "" if there is none.
func (c *Conflict) Where() string {
	switch {
	case c.Line == 0:
		return c.Pointer
	case c.Pointer == "":
		return "line " + strconv.Itoa(c.Line)
	}
	return "line " + strconv.Itoa(c.Line) + ", " + c.Pointer
}

// Place is the value at Pointer in words, "the value at users.0.name"; "" if there is
// none.
func (c *Conflict) Place() string {
	if c.Pointer == "" {
		return ""
	}
	names := strings.Split(c.Pointer[1:], "/")
	for i, n := range names {
		n = strings.NewReplacer("~1", "/", "~0", "~").Replace(n)
		if n == "" || strings.ContainsAny(n, ". \"") {
			n = strconv.Quote(n)
		}
		names[i] = n
	}
	return "the value at " + strings.Join(names, ".")
}

// What is refused, as reasons.
const (
	bothChanged   = "both sides have changed this"
	bothAdded     = "both sides have added this, and not the same"
	bothInserted  = "both sides have put something in here, and not the same"
	bothReordered = "both sides have put these into another order"
	iDeleted      = "you have deleted what the other side has changed"
	theyDeleted   = "the other side has deleted what you have changed"
	besideDeleted = "one side has put something in where the other has deleted something"
	tooLarge      = "too large to merge"
	tooDifferent  = "the versions have too little in common to be merged"
	isBinary      = "binary content is never merged"
)

// Merge joins theirs and mine, which were both made from base. It may return one
// of them and changes none. The error is a *Conflict, always.
func Merge(kind Kind, base, theirs, mine []byte) ([]byte, error) {
	switch {
	case bytes.Equal(theirs, mine), bytes.Equal(base, mine):
		return theirs, nil
	case bytes.Equal(base, theirs):
		return mine, nil
	}
	for _, content := range [][]byte{base, theirs, mine} {
		if len(content) > MaxSize {
			return nil, &Conflict{Reason: tooLarge}
		}
		if bytes.IndexByte(content, 0) >= 0 || !utf8.Valid(content) {
			return nil, &Conflict{Reason: isBinary}
		}
	}
	switch kind {
	case JSON:
		return mergeJSON(base, theirs, mine)
	case JSONLines:
		return mergeJSONLines(base, theirs, mine)
	case Text:
	}
	return mergeText(base, theirs, mine)
}
