package disk

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"latchfs/journal"
)

// WalkAll walks again from the start when directories were moved or removed meanwhile. begin
// may be nil; it is called before each walk.
func (s *Disk) WalkAll(ctx context.Context, begin func(), visit func(dir int, path string, e Entry) error) error {
	err := errMoved
	for try := 0; try < 10 && errors.Is(err, errMoved); try++ {
		if begin != nil {
			begin()
		}
		err = s.Walk(ctx, visit)
	}
	return err
}

// errMoved: a directory was moved or removed while the walk was in it, or below.
var errMoved = errors.New("directories are being moved about")

// level is one directory on the way from the root to where the walk is.
type level struct {
	path     string
	dev, ino uint64
	subdirs  []string // still to be visited
}

// Walk calls visit for every entry below the data root, except in the state
// directory, in other data roots, behind mount points and in directories that
// may not be read. It has one directory open at a time, however deep the tree.
func (s *Disk) Walk(ctx context.Context, visit func(dir int, path string, e Entry) error) error {
	cur, err := OpenDir(s.Root, ".")
	if err != nil {
		return err
	}
	defer func() { unix.Close(cur) }()
	top, err := s.visitDir(cur, "", visit)
	if err != nil {
		return err
	}
	for stack := []*level{top}; len(stack) > 0; {
		if err := ctx.Err(); err != nil {
			return err
		}
		l := stack[len(stack)-1]
		if len(l.subdirs) == 0 {
			if stack = stack[:len(stack)-1]; len(stack) == 0 {
				return nil
			}
			if cur, err = s.ascend(cur, stack[len(stack)-1]); err != nil {
				return err
			}
			continue
		}
		name := l.subdirs[len(l.subdirs)-1]
		l.subdirs = l.subdirs[:len(l.subdirs)-1]
		next, err := openBeneath(cur, name, unix.RESOLVE_NO_XDEV)
		if Gone(err) || errors.Is(err, unix.EXDEV) || errors.Is(err, unix.EACCES) {
			continue
		}
		if err != nil {
			return err
		}
		unix.Close(cur)
		cur = next
		below, err := s.visitDir(cur, path.Join(l.path, name), visit)
		if err != nil {
			return err
		}
		stack = append(stack, below)
	}
	return nil
}

// visitDir calls visit for the entries of one directory.
func (s *Disk) visitDir(dir int, where string, visit func(dir int, path string, e Entry) error) (*level, error) {
	var st unix.Stat_t
	if err := unix.Fstat(dir, &st); err != nil {
		return nil, os.NewSyscallError("fstat", err)
	}
	l := &level{path: where, dev: uint64(st.Dev), ino: st.Ino}
	if where != "" && unix.Fstatat(dir, StateDirName, &st, unix.AT_SYMLINK_NOFOLLOW) == nil {
		return l, nil // another data root: its orphans are its own
	}
	var visited error
	err := ReadDir(dir, func(e Entry) error {
		if e.IsDir && e.Name != StateDirName {
			l.subdirs = append(l.subdirs, e.Name)
		}
		visited = visit(dir, where, e)
		return visited
	})
	if visited == nil && Gone(err) {
		return nil, errMoved // it was removed, and ".." of it leads nowhere
	}
	return l, err
}

// ascend exchanges cur for its parent, which must be the directory of l. ".." leads into
// whatever is mounted over that, which is not the data. What covers the data root is most
// likely latchfs itself, so that the way there goes by the root's own descriptor. Whatever
// covers another directory was mounted during the walk, and the next walk stays out of it.
func (s *Disk) ascend(cur int, l *level) (int, error) {
	up, err := openResolving(cur, "..", unix.RESOLVE_NO_XDEV)
	if errors.Is(err, unix.EXDEV) && l.path == "" {
		up, err = OpenDir(s.Root, ".")
	}
	if err != nil {
		return cur, errMoved
	}
	unix.Close(cur)
	var st unix.Stat_t
	if err := unix.Fstat(up, &st); err != nil {
		return up, os.NewSyscallError("fstat", err)
	}
	if uint64(st.Dev) != l.dev || st.Ino != l.ino {
		return up, errMoved
	}
	return up, nil
}

// OpenBelow opens the directory path below the data root.
func (s *Disk) OpenBelow(path string) (int, error) {
	if path == "" {
		path = "."
	}
	return openBeneath(s.Root, path, 0)
}

// OpenShadowDir opens the directory that has the shadow of in.
func (s *Disk) OpenShadowDir(in journal.Intent) (int, error) {
	if in.InState {
		return OpenDir(s.StateFD(), ".")
	}
	return s.OpenBelow(in.ShadowDir)
}

// openBeneath opens a directory for listing, through no symbolic link and never
// outside of dir.
func openBeneath(dir int, path string, resolve uint64) (int, error) {
	return openResolving(dir, path, unix.RESOLVE_BENEATH|resolve)
}

// openResolving opens a directory for listing, through no symbolic link. The path may be longer
// than one system call can name (PATH_MAX): programs that go down step by step come so deep.
func openResolving(dir int, path string, resolve uint64) (int, error) {
	if len(path) >= unix.PathMax {
		i := strings.LastIndexByte(path[:unix.PathMax-1], '/')
		if i <= 0 {
			return -1, os.NewSyscallError("openat2", unix.ENAMETOOLONG)
		}
		above, err := openResolving(dir, path[:i], resolve)
		if err != nil {
			return -1, err
		}
		defer unix.Close(above)
		return openResolving(above, path[i+1:], resolve)
	}
	for {
		fd, err := unix.Openat2(dir, path, &unix.OpenHow{
			Flags:   unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC,
			Resolve: unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS | resolve,
		})
		// openat2(2): EAGAIN when a rename elsewhere got in between.
		if err != unix.EINTR && err != unix.EAGAIN {
			return fd, os.NewSyscallError("openat2", err)
		}
	}
}

// OpenDir opens a directory for listing, through no symbolic link.
func OpenDir(at int, name string) (int, error) {
	for {
		fd, err := unix.Openat(at, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err != unix.EINTR {
			return fd, os.NewSyscallError("openat", err)
		}
	}
}

// Entry is an entry of a directory.
type Entry struct {
	Name  string
	Ino   uint64
	IsDir bool
}

// ReadDir calls fn for each entry of dir but "." and "..". dir may be O_PATH.
func ReadDir(dir int, fn func(Entry) error) error {
	fd, err := OpenDir(dir, ".")
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	buf := make([]byte, 32<<10)
	for {
		n, err := unix.Getdents(fd, buf)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return os.NewSyscallError("getdents64", err)
		}
		if n == 0 {
			return nil
		}
		for b := buf[:n]; len(b) > 0; {
			e, size, typ := parseDirent(b)
			b = b[size:]
			if e.Name == "." || e.Name == ".." {
				continue
			}
			if typ == unix.DT_UNKNOWN {
				var st unix.Stat_t
				e.IsDir = unix.Fstatat(fd, e.Name, &st, unix.AT_SYMLINK_NOFOLLOW) == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR
			}
			if err := fn(e); err != nil {
				return err
			}
		}
	}
}

// parseDirent reads one struct linux_dirent64 (getdents(2)).
func parseDirent(b []byte) (e Entry, size int, typ byte) {
	size = int(binary.NativeEndian.Uint16(b[16:]))
	typ = b[18]
	name, _, _ := bytes.Cut(b[19:size], []byte{0})
	return Entry{Name: string(name), Ino: binary.NativeEndian.Uint64(b), IsDir: typ == unix.DT_DIR}, size, typ
}
