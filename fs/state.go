package fs

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"latchfs/journal"
	"latchfs/journal/commit"
	"latchfs/journal/statedir"
)

// judgeState refuses a state directory that somebody may have put in the place of the
// last one, if recovery would have to believe it. fresh says that it is empty.
func (f *FS) judgeState(fresh bool) error {
	if fresh {
		if statedir.Forgotten(f.rootfd) {
			f.log.Warnf("%s: its state directory is gone (.latchfs: history, refused bytes, audit trail); a new one is begun", f.opts.Dir)
		}
		f.vouchForState()
		return nil
	}
	trust, err := statedir.Judge(f.rootfd, f.state)
	if errors.Is(err, statedir.ErrReplaced) {
		return f.refuseState(err)
	}
	if err != nil {
		return fmt.Errorf("%s/%s: %w", f.opts.Dir, commit.StateDirName, err)
	}
	if trust == statedir.Proven {
		return nil
	}
	found, err := journal.Check(f.state)
	if err != nil {
		return fmt.Errorf("journal of %s: %w", f.opts.Dir, err)
	}
	if n := len(found.Pending); n > 0 {
		return fmt.Errorf("%w: %s/%s holds %d unfinished changes, and nothing proves that it is the state directory that was last used here: %s can put a former one in its place. If you know that nobody has: latchfs fsck --repair --trust-state %[2]s",
			ErrReservedName, f.opts.Dir, commit.StateDirName, n, f.ownerName())
	}
	return nil
}

// vouchForState notes that the state directory is the last one that was used here.
func (f *FS) vouchForState() {
	if err := statedir.Vouch(f.rootfd, f.state); err != nil {
		f.log.Warnf("%s: a state directory put in the place of this one would not be noticed: %v", f.opts.Dir, err)
	}
}

// rootChanged is to be called when somebody has changed the owner or the rights of the data
// root through the mount: others may be able to rename the state directory now. It is in its
// place still, as far as anybody can tell.
func (f *FS) rootChanged(node uint64) {
	if node == rootID && f.state != nil {
		f.vouchForState()
	}
}

// refuseState says what to do about a state directory that is not our own.
func (f *FS) refuseState(reason error) error {
	if errors.Is(reason, statedir.ErrReplaced) {
		return fmt.Errorf("%w: %s/%s is %w: %s may have put a former one in its place. To use it all the same: latchfs fsck --repair --trust-state %[2]s; to begin a new one, rename it",
			ErrReservedName, f.opts.Dir, commit.StateDirName, reason, f.ownerName())
	}
	return fmt.Errorf("%w: %s/%s is %w; rename it to begin a new one, or mount as the user to whom it belongs",
		ErrReservedName, f.opts.Dir, commit.StateDirName, reason)
}

// ownerName names the owner of the data directory.
func (f *FS) ownerName() string {
	var st unix.Stat_t
	if unix.Fstatat(f.rootfd, "", &st, unix.AT_EMPTY_PATH) != nil {
		return "its owner"
	}
	id := strconv.Itoa(int(st.Uid))
	if u, err := user.LookupId(id); err == nil {
		return u.Username + ", its owner,"
	}
	return "user " + id + ", its owner,"
}

// maxLinks is how many symbolic links a path may lead through, as for the kernel.
const maxLinks = 40

// followLinks resolves the symbolic links in an absolute path. A link that neither
// root nor our own user has made leads root wherever its owner likes: it is refused.
func followLinks(path string) (string, error) {
	at, rest, links := "/", strings.Split(path, "/"), 0
	for len(rest) > 0 {
		name := rest[0]
		rest = rest[1:]
		switch name {
		case "", ".":
			continue
		case "..":
			at = filepath.Dir(at)
			continue
		}
		next := filepath.Join(at, name)
		var st unix.Stat_t
		if err := unix.Lstat(next, &st); err != nil {
			return "", &os.PathError{Op: "lstat", Path: next, Err: err}
		}
		if st.Mode&unix.S_IFMT != unix.S_IFLNK {
			at = next
			continue
		}
		if links++; links > maxLinks {
			return "", &os.PathError{Op: "lstat", Path: path, Err: unix.ELOOP}
		}
		if os.Geteuid() == 0 && st.Uid != 0 {
			return "", fmt.Errorf("%w: %s is a symbolic link of user %d, who can let it lead anywhere: name the directory itself", ErrBadOption, next, st.Uid)
		}
		target, err := os.Readlink(next)
		if err != nil {
			return "", err
		}
		if filepath.IsAbs(target) {
			at = "/"
		}
		rest = append(strings.Split(target, "/"), rest...)
	}
	return at, nil
}

// openResolved opens a directory by a path in which there are no links any more.
func openResolved(path string) (int, error) {
	return unix.Openat2(unix.AT_FDCWD, path, &unix.OpenHow{
		Flags:   unix.O_PATH | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
	})
}
