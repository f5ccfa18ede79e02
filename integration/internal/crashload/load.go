package crashload

import (
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
)

// Files that a load writes below its directory, beside "new-N" and "temp-N".
const (
	Truncated = "truncated" // O_TRUNC and several writes
	Updated   = "updated"   // written over from the start, then cut
	Renamed   = "renamed"   // a temporary file renamed over it
	Linked    = "linked"    // has a second name, LinkedTwin
	Appended  = "appended"  // records, one for each open
	Synced    = "synced"    // O_TRUNC, fsync after every write
	Moded     = "moded"     // O_TRUNC, and the mode goes with the version: see Mode
	Backed    = "backed"    // renamed to Backup and made anew, as vim does
	Shared    = "../shared" // lines of all loads, each with one descriptor for all its lines

	LinkedTwin = "linked-twin"
	Backup     = "backed~"
)

// Mode is the mode that version n of Moded has.
func Mode(n int) os.FileMode { return 0o600 | os.FileMode(n)%0o100 }

// Load is one process's load.
type Load struct {
	Dir string
	Log io.Writer

	n      int
	encode func(n int) []byte
	shared *os.File
}

// RunInPlace rewrites one large file of two names until something fails.
func (s *Load) RunInPlace(first int) error {
	s.encode = EncodeLarge
	for s.n = first; ; s.n++ {
		if err := s.link(s.n); err != nil {
			return err
		}
	}
}

// Run saves until something fails, which is how it ends when its filesystem is
// gone. It goes on counting from first.
func (s *Load) Run(first int) error {
	s.n, s.encode = first, Encode
	ways := s.ways()
	for {
		for _, i := range rand.Perm(len(ways)) {
			if err := ways[i](s.n); err != nil {
				return err
			}
		}
		s.n++
	}
}

func (s *Load) ways() []func(int) error {
	return []func(int) error{s.truncate, s.update, s.rename, s.create, s.link, s.append, s.sync, s.chmod, s.backup, s.share}
}

func (s *Load) path(name string) string { return filepath.Join(s.Dir, name) }

// note writes a line to the log in one write, so that lines are whole however
// this process ends.
func (s *Load) note(what, name string, n int) error {
	_, err := fmt.Fprintf(s.Log, "%s %s %d\n", what, name, n)
	return err
}

// acknowledged brackets an operation on a file with the log's lines.
func (s *Load) acknowledged(name string, n int, f func() error) error {
	if err := s.note("begin", name, n); err != nil {
		return err
	}
	if err := f(); err != nil {
		return fmt.Errorf("%s %d: %w", name, n, err)
	}
	return s.note("done", name, n)
}

// save opens, writes in pieces, lets finish have the file, and closes; the
// acknowledgement is the close.
func (s *Load) save(name string, flags, n int, finish func(*os.File) error) error {
	f, err := os.OpenFile(s.path(name), flags, 0o644)
	if err != nil {
		return err
	}
	for rest := s.encode(n); len(rest) > 0; {
		piece := min(len(rest), 1+rand.IntN(max(16<<10, len(rest)/4)))
		if _, err := f.Write(rest[:piece]); err != nil {
			f.Close()
			return err
		}
		rest = rest[piece:]
	}
	if finish != nil {
		if err := finish(f); err != nil {
			f.Close()
			return err
		}
	}
	return f.Close()
}

func (s *Load) truncate(n int) error {
	return s.acknowledged(Truncated, n, func() error {
		return s.save(Truncated, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, n, nil)
	})
}

func (s *Load) update(n int) error {
	return s.acknowledged(Updated, n, func() error {
		return s.save(Updated, os.O_RDWR|os.O_CREATE, n, func(f *os.File) error {
			return f.Truncate(int64(len(Encode(n))))
		})
	})
}

func (s *Load) sync(n int) error {
	return s.acknowledged(Synced, n, func() error {
		return s.save(Synced, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, n, (*os.File).Sync)
	})
}

func (s *Load) chmod(n int) error {
	return s.acknowledged(Moded, n, func() error {
		return s.save(Moded, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, n, func(f *os.File) error { return f.Chmod(Mode(n)) })
	})
}

// backup takes the name from the file before it is saved.
func (s *Load) backup(n int) error {
	b, err := os.ReadFile(s.path(Backed))
	if err != nil && !os.IsNotExist(err) {
		return err
	}
	if err == nil {
		old, err := Decode(b)
		if err != nil {
			return err
		}
		if err := s.note("remove", Backed, n); err != nil {
			return err
		}
		err = s.acknowledged(Backup, old, func() error { return os.Rename(s.path(Backed), s.path(Backup)) })
		if err != nil {
			return err
		}
	}
	return s.acknowledged(Backed, n, func() error {
		return s.save(Backed, os.O_WRONLY|os.O_CREATE|os.O_EXCL, n, nil)
	})
}

// share adds a line to the file that all loads write.
func (s *Load) share(n int) error {
	if s.shared == nil {
		var err error
		if s.shared, err = os.OpenFile(s.path(Shared), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644); err != nil {
			return err
		}
	}
	return s.acknowledged(Shared, n, func() error {
		_, err := s.shared.WriteString(SharedLine(filepath.Base(s.Dir), n))
		return err
	})
}

func (s *Load) rename(n int) error {
	return s.acknowledged(Renamed, n, func() error {
		temp := fmt.Sprint("temp-", n)
		if err := s.save(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, n, nil); err != nil {
			return err
		}
		return os.Rename(s.path(temp), s.path(Renamed))
	})
}

// create makes a new file and removes the one before the last.
func (s *Load) create(n int) error {
	name := fmt.Sprint("new-", n)
	err := s.acknowledged(name, n, func() error {
		return s.save(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, n, nil)
	})
	if err != nil {
		return err
	}
	old := fmt.Sprint("new-", n-2)
	if err := s.note("remove", old, n); err != nil {
		return err
	}
	if err := os.Remove(s.path(old)); err != nil && !os.IsNotExist(err) {
		return err
	}
	return s.note("removed", old, n)
}

// link rewrites a file of two names, which has to be done in place. A crash may have taken
// the second name.
func (s *Load) link(n int) error {
	return s.acknowledged(Linked, n, func() error {
		if _, err := os.Lstat(s.path(LinkedTwin)); os.IsNotExist(err) {
			if err := s.save(Linked, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, n, nil); err != nil {
				return err
			}
			if err := os.Link(s.path(Linked), s.path(LinkedTwin)); err != nil {
				return err
			}
		}
		return s.save(Linked, os.O_WRONLY|os.O_TRUNC, n, nil)
	})
}

// append adds the next record; the file itself says which one that is.
func (s *Load) append(int) error {
	b, err := os.ReadFile(s.path(Appended))
	if err != nil && !os.IsNotExist(err) {
		return err
	}
	next, err := DecodeLines(b)
	if err != nil {
		return err
	}
	return s.acknowledged(Appended, next, func() error {
		f, err := os.OpenFile(s.path(Appended), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
		if err != nil {
			return err
		}
		if _, err := f.WriteString(Line(next)); err != nil {
			f.Close()
			return err
		}
		return f.Close()
	})
}
