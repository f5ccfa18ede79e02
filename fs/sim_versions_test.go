package fs

import (
	"cmp"
	"fmt"
	"regexp"
	"strings"

	"golang.org/x/sys/unix"
)

// Versions: each is written in three parts, and has them all or is torn.

func versionText(v string) []string {
	if s, ok := sheetOf(v); ok {
		return s.text()
	}
	return []string{"<" + v + ".", v + ".", v + ">"}
}

var versionShape = regexp.MustCompile(`^(?:<(\w+)\.(\w+)\.(\w+)>)?((?:\{\w+\}\n)*)$`)

// versionOf says which version a text is, with the records that were added to it; not
// whole if it is none. An empty file is one.
func versionOf(text string) (v string, whole bool) {
	if s, ok := sheetIn(text); ok {
		return s.String(), true
	}
	m := versionShape.FindStringSubmatch(text)
	if m == nil || m[1] != m[2] || m[2] != m[3] {
		return "", false
	}
	return cmp.Or(m[1], "empty") + strings.ReplaceAll(m[4], "\n", ""), true
}

// The words of the transcript.

func flagsText(flags uint32) string {
	s := []string{"to read", "to write", "to read and write"}[flags&unix.O_ACCMODE]
	for _, x := range []struct {
		bit  uint32
		text string
	}{{unix.O_CREAT, "create"}, {unix.O_EXCL, "exclusively"}, {unix.O_TRUNC, "truncate"}, {unix.O_APPEND, "append"}} {
		if flags&x.bit != 0 {
			s += ", " + x.text
		}
	}
	return s
}

func result(e unix.Errno) string {
	if e == 0 {
		return "ok"
	}
	return fmt.Sprintf("%s (%s)", unix.ErrnoName(e), e)
}
