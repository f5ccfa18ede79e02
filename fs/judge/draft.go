package judge

import (
	"slices"

	"golang.org/x/sys/unix"

	"latchfs/fs/printable"
	"latchfs/journal/commit"
)

// Draft is what somebody has written, and what is about to be published.
type Draft interface {
	// Paths are the names whose content it changes, its own first.
	Paths() []string
	// CheckBase looks whether what it is to replace is there still.
	CheckBase() error
	// FD is a descriptor of the content, open for reading.
	FD() int
	// Writer is the user who has written it.
	Writer() uint32
}

// Accepted is what the validators have accepted of a Draft. The zero value is nothing.
type Accepted struct {
	version commit.Version
}

// Judge asks the validators of every name whose content the draft changes, and reports
// whether there are any. Where CheckBase has an error there is no use in asking them.
func (a *Accepted) Judge(j *Judge, d Draft) (asked bool, err error) {
	paths := d.Paths()
	own := paths[0]
	for _, path := range paths {
		v := j.Rules(path)
		if v == nil {
			continue
		}
		if err := d.CheckBase(); err != nil {
			return false, err
		}
		asked = true
		a.version, err = j.content(j.ctx, d.FD(), path, v, d.Writer())
		if err != nil && path != own {
			err = &otherNameError{path, err}
		}
		if err != nil {
			a.Clear()
			return true, err
		}
	}
	return asked, nil
}

// Clear forgets what was accepted.
func (a *Accepted) Clear() { a.version = commit.Version{} }

// Stands reports whether the draft is what the validators have accepted, or has none.
func (a *Accepted) Stands(j *Judge, d Draft) bool {
	if !slices.ContainsFunc(d.Paths(), func(path string) bool { return j.Rules(path) != nil }) {
		return true
	}
	var st unix.Stat_t
	return unix.Fstat(d.FD(), &st) == nil && a.version == commit.VersionOf(&st)
}

// otherNameError is a refusal under another name of a file than the draft's.
type otherNameError struct {
	path string
	err  error
}

func (e *otherNameError) Error() string {
	return "as " + printable.Line(e.path) + ", another name of the file: " + e.err.Error()
}

func (e *otherNameError) Unwrap() error { return e.err }
