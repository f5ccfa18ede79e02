package commit

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"latchfs/journal"
	"latchfs/journal/commit/internal/disk"
	"latchfs/journal/commit/internal/lazy"
	"latchfs/journal/commit/internal/reserved"
)

// Shadow is the private copy that one session writes. Its methods are not for
// concurrent use, except FD; the file behind FD may be written meanwhile.
type Shadow struct {
	s         *Store
	as        disk.Runner
	fd        int
	shared    *disk.Shared // fd, when a commit that is not on disk holds it as well; or nil
	initial   unix.Stat_t  // as NewShadow has made it, but for the times; mode and owner: see Carried
	birth     int64        // its time of birth in nanoseconds, 0 if that is not known
	anew      bool         // it has no base
	inPlace   error        // why it can only be committed in place; nil: no reason
	inState   bool         // it was made in the state directory
	published bool         // its inode is, or was, the file
	kept      bool         // what it replaced is in the history

	dirPath, target string // what it was made for

	name     reserved.Name // beside the target or in the state directory, or none
	recorded uint64        // the intent with which the journal was written back; 0: none
	linked   linked        // when it got the name

	mark mark
	lazy *lazy.Commit // while it is being published without a sync; nil: with one
}

// ShadowOptions say what a shadow is made for.
type ShadowOptions struct {
	Dir     int    // descriptor of the target's directory; O_PATH will do
	DirPath string // that directory relative to the data root, for the journal
	Name    string // the target's name in Dir
	Base    int    // descriptor of the present file, opened for reading; -1 for a new file

	// For a new file only. Mode holds the permission bits after the umask was
	// applied; where the directory has a default ACL, that is applied as
	// open(2) does. UID and GID are the owner, -1 to leave the daemon's; in a
	// directory with the set-group-ID bit the group is the directory's
	// whatever GID says (inode(7)).
	Mode     uint32
	UID, GID int

	As disk.Runner // on whose behalf the shadow gets space: a new file is made as that user's
}

// NewShadow makes a shadow without content. With a Base it gets the base's
// mode, owner, extended attributes, ACLs, inode flags and times. If that is not
// possible, or if the directory cannot be written, the shadow is good all the
// same, but Publish refuses it with ErrCannotPreserve; see MustInPlace.
func (s *Store) NewShadow(o ShadowOptions) (*Shadow, error) {
	sh := &Shadow{s: s, as: o.As, fd: -1, name: reserved.New(s.disk), anew: o.Base < 0, dirPath: o.DirPath, target: o.Name}
	mode, maker := o.Mode&0o7777, o.As
	var base unix.Stat_t
	if o.Base >= 0 {
		if err := unix.Fstat(o.Base, &base); err != nil {
			return nil, fmt.Errorf("new shadow: %w", os.NewSyscallError("fstat", err))
		}
		// Its owner may set attributes (user.*) only of a file that it may write: see copyMeta,
		// which takes that right away again.
		mode, maker = base.Mode&0o777|unix.S_IWUSR, nil
	}
	err := sh.create(o.Dir, mode, maker)
	if o.Base >= 0 && (errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM) || errors.Is(err, unix.EROFS)) {
		sh.inPlace = &kinded{ErrCannotPreserve, "directory", err}
		sh.inState = true
		err = sh.create(s.disk.StateFD(), mode, nil)
	}
	if err != nil {
		return nil, fmt.Errorf("new shadow: %w", err)
	}
	if sh.birth, err = disk.StatBorn(sh.fd, &sh.initial); err == nil {
		if o.Base >= 0 {
			err = sh.copyMeta(o.Base, &base)
		} else {
			err = sh.initMeta(o)
		}
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("new shadow: %w", err), sh.Discard())
	}
	return sh, nil
}

// create makes the file: unnamed where the filesystem can. With a name it is nobody else's
// before it has the owner and the ACL of its base.
func (sh *Shadow) create(dir int, mode uint32, maker disk.Runner) error {
	err := sh.s.disk.Do("tmpfile", func() error {
		return maker.Run(func() (err error) {
			sh.fd, err = unix.Openat(dir, ".", unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, mode)
			return err
		})
	})
	if err != nil {
		sh.fd = -1
	}
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EISDIR) || errors.Is(err, unix.EINVAL) {
		if !sh.anew {
			mode = 0o600
		}
		return sh.createNamed(dir, mode, maker)
	}
	return err
}

func (sh *Shadow) createNamed(dir int, mode uint32, maker disk.Runner) error {
	err := sh.name.Take(dir, journal.Intent{
		Kind: journal.KindShadow, Dir: sh.dirPath, Name: sh.target, ShadowDir: sh.dirPath, InState: sh.inState,
	})
	if err != nil {
		return err
	}
	err = sh.s.disk.Do("create", func() error {
		return maker.Run(func() (err error) {
			sh.fd, err = unix.Openat(dir, sh.name.Intent().Shadow, unix.O_CREAT|unix.O_EXCL|unix.O_RDWR|unix.O_CLOEXEC|unix.O_NOFOLLOW, mode)
			return err
		})
	})
	if err != nil {
		sh.fd = -1
		return errors.Join(err, sh.name.Gone())
	}
	return nil
}

// keepsOrder reports whether bytes that were written back are on the disk before a name
// is that the shadow gets afterwards.
func (sh *Shadow) keepsOrder() bool { return sh.s.disk.KeepsOrder(uint64(sh.initial.Dev)) }

// forgetsUnnamed reports whether the disk loses what is synced before it has a name.
func (sh *Shadow) forgetsUnnamed() bool {
	return sh.s.disk.ForgetsUnnamed(sh.fd, uint64(sh.initial.Dev))
}

// FD returns the descriptor of the shadow, opened for reading and writing. It
// is the shadow's and is closed by Discard.
func (sh *Shadow) FD() int { return sh.fd }

// MustInPlace returns an ErrCannotPreserve that says why the shadow can only be
// committed with InPlace, or nil.
func (sh *Shadow) MustInPlace() error { return sh.inPlace }

// Kept reports whether Publish or InPlace has put the content that it replaced
// into the history.
func (sh *Shadow) Kept() bool { return sh.kept }

// Clone makes another shadow for the same target, in the directory dir, with
// this one's metadata, times and content as they are now.
func (sh *Shadow) Clone(dir int) (*Shadow, error) {
	c, err := sh.s.NewShadow(ShadowOptions{Dir: dir, DirPath: sh.dirPath, Name: sh.target, Base: sh.fd, As: sh.as})
	if err != nil {
		return nil, err
	}
	if err := c.Fill(sh.fd); err != nil {
		return nil, errors.Join(err, c.Discard())
	}
	return c, nil
}

// Discard gives back what the shadow still has: its reserved name, if any, and
// its descriptor. After Publish, InPlace or Reject only the descriptor is left,
// and what they did stays. Calling it again does nothing.
func (sh *Shadow) Discard() error {
	err := sh.name.Drop()
	switch {
	case sh.shared != nil:
		sh.shared.Drop()
	case sh.fd >= 0:
		unix.Close(sh.fd)
	}
	sh.fd, sh.shared = -1, nil
	return err
}
