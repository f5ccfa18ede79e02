package history

import (
	"latchfs/journal/history/internal/contents"
	"latchfs/journal/history/internal/record"
)

// Dir is the name of the history's directory inside the state directory.
const Dir = "history"

// ContentPath is where the content of that id lies, relative to the state
// directory.
func ContentPath(id string) string { return Dir + "/" + ContentDir(id) + "/" + id }

// ContentDir is the directory of a content inside Dir.
func ContentDir(id string) string { return contents.DirOf(id) }

// NewPrefix begins the name of a content that is being made; worthless after a
// crash.
const NewPrefix = contents.NewPrefix

// IsContentID reports whether id has the form of a content id: 32 lower-case
// hexadecimal digits.
func IsContentID(id string) bool { return record.IsContentID(id) }
