package disk

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"latchfs/journal"
)

// ErrBarred is the error about a file that the daemon may not open, or that is being executed.
var ErrBarred = errors.New("the file may not be opened")

// OpenTarget opens the file that in is about to read and write it, -1 if name is not that file.
// The error wraps ErrBarred if it may not be.
func OpenTarget(dir int, name string, in journal.Intent) (int, error) {
	return openTarget(dir, name, in, unix.O_RDWR)
}

// ReadTarget is OpenTarget for those who only read the file.
func ReadTarget(dir int, name string, in journal.Intent) (int, error) {
	return openTarget(dir, name, in, unix.O_RDONLY)
}

func openTarget(dir int, name string, in journal.Intent, access int) (int, error) {
	var st unix.Stat_t
	err := unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW)
	if Gone(err) || err == nil && (st.Ino != in.TargetIno || st.Mode&unix.S_IFMT != unix.S_IFREG) {
		return -1, nil
	}
	if err != nil {
		return -1, os.NewSyscallError("fstatat", err)
	}
	fd, err := openOwn(dir, name, access)
	switch err {
	case nil:
	case unix.EACCES, unix.EPERM, unix.ETXTBSY:
		return -1, fmt.Errorf("%w: %w", ErrBarred, os.NewSyscallError("openat", err))
	default:
		return -1, os.NewSyscallError("openat", err)
	}
	if IsTarget(fd, &st, in) {
		return fd, nil
	}
	unix.Close(fd)
	return -1, nil
}

// IsTarget reports whether fd, which has the status st, is the file that in is
// about.
func IsTarget(fd int, st *unix.Stat_t, in journal.Intent) bool {
	if st.Ino != in.TargetIno || st.Mode&unix.S_IFMT != unix.S_IFREG {
		return false
	}
	// Device numbers change with the order of mounting; births do not.
	return Birth(fd) == in.TargetBirth && (in.TargetBirth != 0 || uint64(st.Dev) == in.TargetDev)
}

// OpenShadow is OpenUnnoticed with an error that names the system call.
func OpenShadow(dir int, name string) (int, error) {
	fd, err := OpenUnnoticed(dir, name)
	if err == unix.EACCES {
		fd, err = openOwn(dir, name, unix.O_RDONLY)
	}
	return fd, os.NewSyscallError("openat", err)
}

// OpenUnnoticed opens the file name in dir for a look of our own: it follows no
// link, waits for no FIFO's writer and, where we may ask for that (it is our file,
// or we are root), leaves the access time as its users' reading has it.
func OpenUnnoticed(dir int, name string) (int, error) {
	const flags = unix.O_RDONLY | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_CLOEXEC
	fd, err := unix.Openat(dir, name, flags|unix.O_NOATIME, 0)
	if err == unix.EPERM {
		fd, err = unix.Openat(dir, name, flags, 0)
	}
	return fd, err
}

// IsWritten reports whether somebody has the file open to write it, or may have. fd is open for
// reading. The kernel gives a lease for reading only where nobody has, which is given back at once.
func IsWritten(fd int) bool {
	_, err := unix.FcntlInt(uintptr(fd), unix.F_SETLEASE, unix.F_RDLCK)
	if err == nil {
		_, err = unix.FcntlInt(uintptr(fd), unix.F_SETLEASE, unix.F_UNLCK)
	}
	return err == unix.EAGAIN
}

// Gone reports whether err says that a name does not lead where it did.
func Gone(err error) bool {
	return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP)
}

// Birth returns a file's time of birth in nanoseconds, 0 if it is not known.
func Birth(fd int) int64 {
	return birthAt(fd, "", unix.AT_EMPTY_PATH)
}

// StatBorn is fstat(2) that tells the time of birth as well, as Birth does.
func StatBorn(fd int, st *unix.Stat_t) (birth int64, err error) {
	var stx unix.Statx_t
	if unix.Statx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_BASIC_STATS|unix.STATX_BTIME, &stx) != nil {
		return 0, os.NewSyscallError("fstat", unix.Fstat(fd, st)) // a kernel, or a sandbox, without it
	}
	at := func(t unix.StatxTimestamp) unix.Timespec { return unix.Timespec{Sec: t.Sec, Nsec: int64(t.Nsec)} }
	*st = unix.Stat_t{
		Dev: unix.Mkdev(stx.Dev_major, stx.Dev_minor), Ino: stx.Ino, Mode: uint32(stx.Mode), Nlink: uint64(stx.Nlink),
		Uid: stx.Uid, Gid: stx.Gid, Size: int64(stx.Size), Blksize: int64(stx.Blksize), Blocks: int64(stx.Blocks),
		Atim: at(stx.Atime), Mtim: at(stx.Mtime), Ctim: at(stx.Ctime),
	}
	if stx.Mask&unix.STATX_BTIME != 0 {
		birth = stx.Btime.Sec*1e9 + int64(stx.Btime.Nsec)
	}
	return birth, nil
}

// birthAt is birth for a name in dir, with the flags of statx(2).
func birthAt(dir int, name string, flags int) int64 {
	var stx unix.Statx_t
	err := unix.Statx(dir, name, flags, unix.STATX_BTIME, &stx)
	if err != nil || stx.Mask&unix.STATX_BTIME == 0 {
		return 0
	}
	return stx.Btime.Sec*1e9 + int64(stx.Btime.Nsec)
}

// BirthOf is birth for a name.
func BirthOf(dir int, name string) int64 {
	return birthAt(dir, name, unix.AT_SYMLINK_NOFOLLOW)
}

// ForgetsUnnamed reports whether the filesystem of fd loses what was synced while
// it had no name.
func ForgetsUnnamed(fd int) bool {
	var st unix.Statfs_t
	return unix.Fstatfs(fd, &st) == nil && st.Type == unix.BTRFS_SUPER_MAGIC
}

// LinkFD gives the file behind fd a name.
func LinkFD(fd, dir int, name string) error {
	// Linux 6.10 and later allow this to whoever has opened the file, and earlier kernels
	// to CAP_DAC_READ_SEARCH; see open(2), O_TMPFILE. It spares a walk through /proc.
	err := unix.Linkat(fd, "", dir, name, unix.AT_EMPTY_PATH)
	if err != unix.ENOENT {
		return err
	}
	return unix.Linkat(unix.AT_FDCWD, procFD(fd), dir, name, unix.AT_SYMLINK_FOLLOW)
}

func procFD(fd int) string { return "/proc/self/fd/" + strconv.Itoa(fd) }

// SyncDir makes the names in dir durable. file is any file of the same
// filesystem: where the directory may not be opened, the filesystem is synced
// through it.
func (s *Disk) SyncDir(dir, file int) error {
	return s.Do("syncdir", func() error {
		d, err := unix.Openat(dir, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if errors.Is(err, unix.EACCES) {
			return unix.Syncfs(file)
		}
		if err != nil {
			return err
		}
		defer unix.Close(d)
		return unix.Fsync(d)
	})
}

// RemoveNamed removes the name that in is about, if it holds that inode. A name
// that is gone already is none.
func (s *Disk) RemoveNamed(dir int, in journal.Intent) error {
	st, named := s.Named(dir, in)
	if !named {
		return nil
	}
	return s.removeNameAs(s.OwnerOf(dir, st), dir, in.Name)
}

// Named looks whether the name still holds the inode that in is about, and returns its
// status.
func (s *Disk) Named(dir int, in journal.Intent) (st *unix.Stat_t, named bool) {
	st = &unix.Stat_t{}
	if unix.Fstatat(dir, in.Name, st, unix.AT_SYMLINK_NOFOLLOW) != nil {
		return nil, false
	}
	b := BirthOf(dir, in.Name)
	return st, st.Ino == in.TargetIno && b == in.TargetBirth && (b != 0 || uint64(st.Dev) == in.TargetDev)
}

// RemoveName removes a file, or a directory that is empty.
func (s *Disk) RemoveName(dir int, name string) error { return s.removeNameAs(nil, dir, name) }

// Unname removes a name of ours from dir some time after what it was for. It leaves a
// modification time that somebody has set for the directory (cp -a, tar), and its mode. A time
// that is that of the last change there is not put back: whoever has just made something
// would find the directory unchanged. A directory of this user's own may have become
// read-only since.
func Unname(dir int, name string) error {
	var st unix.Stat_t
	if err := unix.Fstat(dir, &st); err != nil {
		return os.NewSyscallError("fstat", err)
	}
	unlink := func() error {
		err := unix.Unlinkat(dir, name, 0)
		if err == nil && st.Mtim != st.Ctim {
			setBack(dir, st.Mtim)
		}
		return err
	}
	err := unlink()
	// A chmod(2) may cost the setgid bit, which could not be put back.
	if errors.Is(err, unix.EACCES) && int(st.Uid) == os.Geteuid() && st.Mode&unix.S_ISGID == 0 {
		err = unix.Chmod(procFD(dir), st.Mode&0o7777|0o300)
		if err == nil {
			err = errors.Join(unlink(), unix.Chmod(procFD(dir), st.Mode&0o7777))
		}
	}
	return err
}

// setBack gives a directory the modification time that it had before a name was removed from
// it, unless somebody has set one since.
func setBack(dir int, was unix.Timespec) {
	var now unix.Stat_t
	if unix.Fstat(dir, &now) == nil && now.Mtim == now.Ctim {
		// Of another one's directory it is not for us to set, where we are not root.
		_ = unix.UtimesNanoAt(unix.AT_FDCWD, procFD(dir), []unix.Timespec{Omit, was}, 0)
	}
}

func (s *Disk) removeNameAs(as Runner, dir int, name string) error {
	return s.Do("unlink", func() error {
		return as.Run(func() error {
			err := unix.Unlinkat(dir, name, 0)
			if errors.Is(err, unix.EISDIR) {
				err = unix.Unlinkat(dir, name, unix.AT_REMOVEDIR)
			}
			return err
		})
	})
}

// epochOf identifies the boot of the machine and the mount of the filesystem
// that fd is on, "" if that cannot be told. As long as it is the same, the kernel
// has lost nothing that was written.
func epochOf(fd int) string {
	boot := bootID()
	var stx unix.Statx_t
	if boot == "" || unix.Statx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_MNT_ID_UNIQUE, &stx) != nil ||
		stx.Mask&unix.STATX_MNT_ID_UNIQUE == 0 {
		return ""
	}
	return fmt.Sprintf("%s/%x", boot, stx.Mnt_id)
}

// bootID names this life of the machine, "" if that cannot be told. A process sees one.
var bootID = sync.OnceValue(func() string {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(boot))
})

// Inode identifies a file as long as it lives.
type Inode struct{ Dev, Ino uint64 }

// InodeOf returns the inode that st is about.
func InodeOf(st *unix.Stat_t) Inode { return Inode{uint64(st.Dev), st.Ino} }

// SameFile reports whether two descriptors, which may be O_PATH, are of one file.
func SameFile(a, b int) bool {
	var x, y unix.Stat_t
	return unix.Fstat(a, &x) == nil && unix.Fstat(b, &y) == nil && x.Dev == y.Dev && x.Ino == y.Ino
}
