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
	base, records := recordsOf(v)
	switch {
	case len(records) > 0:
		return append(versionText(base), recordsText(v[len(base):]))
	case v == "empty":
		return nil
	case strings.HasSuffix(v, goodMark):
		return []string{`["` + v + ".", v + ".", v + "\"]\n"}
	}
	return []string{"<" + v + ".", v + ".", v + ">"}
}

// goodMark ends the versions and records that validators accept, which are JSON.
const goodMark = "q"

// recordText is a record as a file has it.
func recordText(v string) string {
	if strings.HasSuffix(v, goodMark) {
		return `["` + v + "\"]\n"
	}
	return "{" + v + "}\n"
}

// recordsText are the records of a version, "{x}{y}", as a file has them.
func recordsText(records string) (text string) {
	_, all := recordsOf(records)
	for _, r := range all {
		text += recordText(r[1 : len(r)-1])
	}
	return text
}

// recordsIn are the records of a version in a file.
func recordsIn(text string) string {
	return strings.NewReplacer("\n", "", `["`, "{", `"]`, "}").Replace(text)
}

// wholeText is what a file holds of a version with its records.
func wholeText(version string) string {
	return strings.Join(versionText(version), "")
}

const recordShape = `((?:\{\w+\}\n|\["\w+"\]\n)*)`

var versionShape = regexp.MustCompile(`^(?:<(\w+)\.(\w+)\.(\w+)>|\["(\w+)\.(\w+)\.(\w+)"\]\n)?` + recordShape + `$`)

// versionOf says which version a text is, with the records that were added to it; not
// whole if it is none. An empty file is one.
func versionOf(text string) (v string, whole bool) {
	if s, ok := sheetIn(text); ok {
		return s.String(), true
	}
	m := versionShape.FindStringSubmatch(text)
	if m == nil || m[1] != m[2] || m[2] != m[3] || m[4] != m[5] || m[5] != m[6] {
		return "", false
	}
	return cmp.Or(m[1], m[4], "empty") + recordsIn(m[7]), true
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
