package journal

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"latchfs/journal/statedir"
)

// Renew begins a new segment in the place of one that c has found corrupt or
// incomplete, and keeps that one, whose new name it returns; "" if there was none.
// The new one's fencing tokens begin above all that the old one can have held. It
// holds no intents: the caller has dealt with what c.Pending says, and with what
// the lost records may have been about. After a crash on the way Check finds the
// same again, or the new segment.
func (c *Checked) Renew(dir *os.File) (aside string, err error) {
	if c.Foreign {
		return "", errors.New("this journal is another version's")
	}
	if c.segment.name != "" {
		if aside, err = keepAside(dir, c.segment.name); err != nil {
			return "", fmt.Errorf("keep %s: %w", c.segment.name, err)
		}
	}
	j := &Journal{dir: dir, seg: &segment{name: c.segment.name, number: c.segment.number}}
	j.opts.setDefaults()
	j.st = state{next: c.next, tokens: tokensAbove(c.tokens), open: map[uint64]Intent{}}
	// It takes the old one's name away when it has its own.
	if err := j.rotateLocked(); err != nil {
		return aside, err
	}
	return aside, j.seg.file.Close()
}

// keepAside gives the file name a second name, which says that it is corrupt,
// and returns that.
func keepAside(dir *os.File, name string) (aside string, err error) {
	aside = corruptPrefix + name
	for n := 1; ; n++ {
		err := unix.Linkat(int(dir.Fd()), name, int(dir.Fd()), aside, 0)
		switch {
		case err == nil:
			return aside, statedir.Sync(dir)
		case err != unix.EEXIST:
			return "", &os.LinkError{Op: "link", Old: name, New: aside, Err: err}
		}
		if same, err := sameFile(dir, name, aside); err != nil || same { // an earlier repair has come this far
			return aside, err
		}
		aside = fmt.Sprintf("%s%s.%d", corruptPrefix, name, n)
	}
}

func sameFile(dir *os.File, a, b string) (bool, error) {
	var x, y unix.Stat_t
	err := errors.Join(unix.Fstatat(int(dir.Fd()), a, &x, unix.AT_SYMLINK_NOFOLLOW),
		unix.Fstatat(int(dir.Fd()), b, &y, unix.AT_SYMLINK_NOFOLLOW))
	return x.Dev == y.Dev && x.Ino == y.Ino, err
}
