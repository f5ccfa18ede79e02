package history

import (
	"errors"
	"fmt"
	"os"
	"path"
	"strings"

	"latchfs/journal"
	"latchfs/journal/history/internal/contents"
	"latchfs/journal/history/internal/logend"
	"latchfs/journal/statedir"

	"golang.org/x/sys/unix"
)

// The kinds of findings about the history.
const (
	FindCorrupt  = "corrupt-history"  // Open refuses it
	FindContent  = "orphaned-content" // no record names it, or it is not what one says
	FindLeftover = "history-leftover" // what was being made
	FindUnknown  = "unknown-entry"    // not ours
)

// meansCorrupt is what a finding of FindCorrupt means.
const meansCorrupt = "no crash explains this, so no mount goes on from here; a repair keeps all of the history aside, and a new one is begun"

// Check examines the history in the state directory, which nobody may have open,
// and changes nothing. The findings' paths are relative to the state directory.
func Check(state *os.File) ([]journal.Finding, error) {
	fd, err := statedir.OpenDir(int(state.Fd()), Dir)
	if errors.Is(err, unix.ENOENT) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("history: %w", os.NewSyscallError("openat", err))
	}
	c := &checker{s: bare(fd)}
	defer c.s.dir.Close()
	usable, err := c.log()
	if err == nil && usable {
		err = c.contents()
	}
	return c.findings, err
}

// checker is one run of Check. Its store has no more than an index.
type checker struct {
	s        *Store
	findings []journal.Finding
}

func (c *checker) find(s journal.Severity, kind, name string, at int64, what, means string) {
	c.findings = append(c.findings, journal.Finding{Severity: s, Kind: kind, Path: path.Join(Dir, name), Offset: at, What: what, Means: means})
}

// log reads the log into the index. usable: the contents can be compared with it.
func (c *checker) log() (usable bool, err error) {
	if err := c.s.startReading(); err != nil {
		return false, err
	}
	var without noLogError
	if errors.As(c.s.missesLog(), &without) {
		c.find(journal.Problem, FindCorrupt, logName, -1, "is "+string(without)+" beside old contents",
			meansCorrupt)
		return false, nil
	}
	intact, size, err := journal.CheckLog(c.s.dir, logName, logend.Least(c.s.dir, logName), c.s.replay)
	var corrupt *journal.CorruptError
	switch {
	case errors.Is(err, os.ErrNotExist):
		return true, nil // a history that is new
	case errors.As(err, &corrupt):
		c.find(journal.Problem, FindCorrupt, logName, corrupt.Offset, corrupt.Reason,
			meansCorrupt)
		return false, nil
	case err != nil:
		return false, fmt.Errorf("history: %w", err)
	case intact < size:
		c.find(journal.Info, journal.FindTornTail, logName, intact, fmt.Sprintf("%d bytes of an unfinished record", size-intact),
			"a crash came while it was written, or before it was on disk; the next mount cuts it off, and looks at the files concerned")
	}
	return true, nil
}

// names are those in the history's directory.
func (c *checker) names() ([]string, error) {
	if _, err := c.s.dir.Seek(0, 0); err != nil {
		return nil, err
	}
	return c.s.dir.Readdirnames(-1)
}

// contents compares the files in the history with the log.
func (c *checker) contents() error {
	names, err := c.names()
	if err != nil {
		return err
	}
	for _, name := range names {
		switch {
		case name == logName, name == logend.Name:
		case name == logName+".new":
			c.find(journal.Recoverable, FindLeftover, name, -1, "a log of the history that was being rewritten",
				"a crash came before it got its name; it is worthless, and the next rewriting begins anew")
		case contents.IsDir(name):
			if err := c.contentsIn(name); err != nil {
				return err
			}
		default:
			c.unknown(name)
		}
	}
	return nil
}

func (c *checker) unknown(name string) {
	c.find(journal.Info, FindUnknown, name, -1, "not an entry that latchfs makes", "nothing uses it, and it is left alone")
}

func (c *checker) contentsIn(dir string) error {
	d, err := c.s.files().Open(dir)
	if errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
		c.unknown(dir)
		return nil
	}
	if err != nil {
		return err
	}
	defer d.Close()
	names, err := d.Readdirnames(-1)
	for _, name := range names {
		id, isNew := strings.CutPrefix(name, NewPrefix)
		file := path.Join(dir, name)
		switch {
		case !contents.IsName(dir, id):
			c.unknown(file)
		case isNew:
			c.find(journal.Recoverable, FindLeftover, file, -1, "a copy of old content that was being made",
				"a crash came before it was complete; the next mount removes it")
		case !c.s.foundLocked(id):
			c.find(journal.Recoverable, FindContent, file, -1, "old content that no record names, that is not whole, or that has another name",
				"a crash came between it and its record; the next mount removes it here")
		}
	}
	return err
}
