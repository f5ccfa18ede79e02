package load

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Curve is how the time of an operation changes while one thing grows.
type Curve struct {
	ID     string
	Title  string             // one operation
	Grows  string             // what grows, the axis of the drawing
	Note   string             // what is done elsewhere, or kept the same; may be empty
	Unit   func(int64) string // writes a point
	Points []int64            // at least two, rising
	Alone  bool               // measured on latchfs alone: the others have none of it
	// Config is the policy that latchfs is mounted with at a point; nil: the same at all.
	Config func(x int64) string
	// clients is how many processes there are at a point; nil: one.
	clients func(x int64) int
	prepare func(Spec) (*job, error) // in the client; Spec.Size is the point
}

// Curves are all curves, in the order of the page.
func Curves() []Curve {
	return []Curve{
		{
			ID: "writers", Title: "safe save, 4 KiB", Grows: "processes that save, each a file of its own", Unit: plainNumber,
			Note:   "elapsed time divided by all saves",
			Points: []int64{1, 2, 4, 8, 16, 32, 64}, clients: func(x int64) int { return int(x) },
			prepare: func(s Spec) (*job, error) { return newSave(s, s.CloseCommits, Full) },
		},
		{
			ID: "queue", Title: "safe save, 4 KiB", Grows: "processes that save one and the same file", Unit: plainNumber,
			Note:   "elapsed time divided by all saves; elsewhere nobody waits for anybody, and the last rename wins",
			Points: []int64{1, 2, 4, 8, 16, 32, 64}, clients: func(x int64) int { return int(x) },
			prepare: newQueue,
		},
		{
			ID: "size", Title: "safe save", Grows: "size of the file", Unit: byteNumber,
			Points: sizes(), prepare: newSizedSave,
		},
		{
			ID: "edit", Title: "4 KiB changed in a file", Grows: "size of the file", Unit: byteNumber,
			Note:   "open without O_TRUNC, write in the middle, close; elsewhere with fdatasync before the close",
			Points: sizes(), prepare: newEdit,
		},
		{
			ID: "directory", Title: "create, close, unlink", Grows: "names in the directory", Unit: plainNumber,
			Points: []int64{10, 100, 1_000, 10_000, 100_000, 1_000_000}, prepare: newInDirectory,
		},
		{
			ID: "readers", Title: "safe save, 4 KiB", Grows: "files that its process has open to read", Unit: plainNumber,
			Points: []int64{10, 100, 1_000, 10_000, 100_000}, prepare: func(s Spec) (*job, error) { return newAmongOpen(s, unix.O_RDONLY) },
		},
		{
			ID: "open", Title: "safe save, 4 KiB", Grows: "files that its process has open to write", Unit: plainNumber,
			Points: []int64{10, 100, 1_000, 3_000}, prepare: func(s Spec) (*job, error) { return newAmongOpen(s, unix.O_WRONLY) },
		},
		{
			ID: "past", Title: "safe save, 4 KiB", Grows: "saves that the mount has seen before", Unit: plainNumber,
			Points: []int64{0, 1_000, 3_000, 10_000}, prepare: newAfterSaves,
		},
		{
			ID: "names", Title: "open, read, close", Grows: "files that were read before", Unit: plainNumber,
			Points: []int64{100, 1_000, 10_000, 50_000}, prepare: newAfterReads,
		},
		{
			ID: "rules", Title: "safe save, 4 KiB", Grows: "rules in the policy", Unit: plainNumber,
			Points: []int64{1, 10, 100, 1_000}, Alone: true, Config: rules,
			prepare: func(s Spec) (*job, error) { return newSave(s, s.CloseCommits, Full) },
		},
	}
}

func sizes() []int64 { return []int64{4 << 10, 64 << 10, mib, 16 * mib, 64 * mib, 256 * mib} }

// Work is the curve at one point, to be measured like any other work.
func (c *Curve) Work(x int64) Work {
	w := Work{ID: "curve-" + c.ID, Title: c.Title, Size: x, prepare: c.prepare}
	if c.clients != nil {
		w.Clients = c.clients(x)
	}
	return w
}

func plainNumber(x int64) string {
	switch {
	case x >= 1_000_000:
		return fmt.Sprintf("%dM", x/1_000_000)
	case x >= 1_000:
		return fmt.Sprintf("%dk", x/1_000)
	}
	return fmt.Sprint(x)
}

func byteNumber(x int64) string {
	if x >= mib {
		return fmt.Sprintf("%d MiB", x/mib)
	}
	return fmt.Sprintf("%d KiB", x>>10)
}

// rules is a policy of so many rules, of which the last is about the files that are saved.
func rules(x int64) string {
	var b bytes.Buffer
	for i := range x {
		pattern := fmt.Sprintf("project-%04d/**", i)
		if i == x-1 {
			pattern = saveDir + "/**"
		}
		fmt.Fprintf(&b, "[[rule]]\nglob = [%q]\nwait = \"%ds\"\n\n", pattern, 10+i%20)
	}
	return b.String()
}

// newQueue saves a file that all clients save.
func newQueue(s Spec) (*job, error) {
	target := filepath.Join(s.Root, saveDir, "queue.json")
	content := bytes.Repeat([]byte("x"), PageSize)
	own := fmt.Sprintf("%s-%d", target, s.Index)
	op := func(int) error {
		if err := writeFile(own, content, true); err != nil {
			return err
		}
		if err := unix.Rename(own, target); err != nil {
			return At("rename", own, err)
		}
		return SyncDir(filepath.Dir(target))
	}
	if s.CloseCommits {
		op = func(int) error { return writeFile(target, content, false) }
	}
	return &job{warm: 1, op: op}, nil
}

func newSizedSave(s Spec) (*job, error) {
	target := filepath.Join(s.Root, streamDir, "sized.bin")
	name := target
	if !s.CloseCommits {
		name += ".tmp"
	}
	op := func(int) error {
		if err := writeSized(name, s.Size, !s.CloseCommits); err != nil || s.CloseCommits {
			return err
		}
		if err := unix.Rename(name, target); err != nil {
			return At("rename", name, err)
		}
		return SyncDir(filepath.Dir(target))
	}
	return &job{warm: 1, op: op, clean: func() error { return At("unlink", target, unix.Unlink(target)) }}, nil
}

// writeSized fills a file in blocks of 1 MiB.
func writeSized(path string, size int64, sync bool) error {
	fd, err := unix.Open(path, unix.O_WRONLY|unix.O_CREAT|unix.O_TRUNC|unix.O_CLOEXEC, 0o644)
	if err != nil {
		return At("open", path, err)
	}
	block := bytes.Repeat([]byte("x"), int(min(size, mib)))
	for left := size; left > 0 && err == nil; left -= int64(len(block)) {
		err = At("write", path, writeAll(fd, block[:min(left, int64(len(block)))]))
	}
	if sync && err == nil {
		err = At("fsync", path, unix.Fsync(fd))
	}
	return errors.Join(err, At("close", path, unix.Close(fd)))
}

func newEdit(s Spec) (*job, error) {
	path := filepath.Join(s.Root, streamDir, "edited.bin")
	if err := writeSized(path, s.Size, false); err != nil {
		return nil, err
	}
	page := bytes.Repeat([]byte("e"), PageSize)
	op := func(int) error {
		fd, err := unix.Open(path, unix.O_RDWR|unix.O_CLOEXEC, 0)
		if err != nil {
			return At("open", path, err)
		}
		_, err = unix.Pwrite(fd, page, s.Size/2&^(PageSize-1))
		if err == nil && !s.CloseCommits {
			err = unix.Fdatasync(fd)
		}
		return errors.Join(At("write", path, err), At("close", path, unix.Close(fd)))
	}
	return &job{warm: 1, op: op, clean: func() error { return At("unlink", path, unix.Unlink(path)) }}, nil
}

// newInDirectory makes a file in a directory with so many names, which are made below the
// mount: names of few inodes, for most filesystems bound how many links an inode has.
func newInDirectory(s Spec) (*job, error) {
	const linksOfEach = 30_000
	dir := filepath.Join(s.Data, "crowd")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	first := ""
	for i := range s.Size {
		path := filepath.Join(dir, fmt.Sprintf("name-%07d", i))
		if i%linksOfEach == 0 {
			first = path
			if err := os.WriteFile(path, nil, 0o644); err != nil {
				return nil, err
			}
		} else if err := unix.Link(first, path); err != nil && err != unix.EEXIST {
			return nil, At("link", path, err)
		}
	}
	path := filepath.Join(s.Root, "crowd", "another")
	op := func(int) error {
		if err := createEmpty(path, false); err != nil {
			return err
		}
		return At("unlink", path, unix.Unlink(path))
	}
	return &job{warm: 3, op: op}, nil
}

// newAmongOpen saves a file in a process that has so many others open.
func newAmongOpen(s Spec, how int) (*job, error) {
	limit := unix.Rlimit{Cur: uint64(s.Size) + 100, Max: uint64(s.Size) + 100}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return nil, fmt.Errorf("so many open files: %w", err)
	}
	if err := makeOthers(s, min(s.Size, 10_000)); err != nil {
		return nil, err
	}
	open := make([]int, 0, s.Size)
	for i := range s.Size {
		path := other(s.Root, i%10_000)
		fd, err := unix.Open(path, how|unix.O_CLOEXEC, 0)
		if err != nil {
			return nil, At("open", path, err)
		}
		open = append(open, fd)
	}
	j, err := newSave(s, s.CloseCommits, Full)
	if err != nil {
		return nil, err
	}
	j.clean = func() error {
		for _, fd := range open {
			unix.Close(fd)
		}
		return nil
	}
	return j, nil
}

func other(root string, i int64) string {
	return filepath.Join(root, "others", fmt.Sprintf("dir-%03d", i/1000), fmt.Sprintf("file-%06d", i))
}

// makeOthers makes small files below the mount.
func makeOthers(s Spec, n int64) error {
	for i := range n {
		path := other(s.Data, i)
		if _, err := os.Lstat(path); err == nil {
			continue
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte("other\n"), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// newAfterSaves saves after so many saves, of a hundred files in turn. A file beside them
// counts those of the points before.
func newAfterSaves(s Spec) (*job, error) {
	j, err := newSave(s, s.CloseCommits, Full)
	if err != nil {
		return nil, err
	}
	count := filepath.Join(filepath.Dir(s.Data), "saves")
	done := int64(0)
	if b, err := os.ReadFile(count); err == nil {
		if _, err := fmt.Sscan(string(b), &done); err != nil {
			return nil, err
		}
	}
	content := bytes.Repeat([]byte("x"), 100)
	for i := done; i < s.Size; i++ {
		path := filepath.Join(s.Root, saveDir, fmt.Sprintf("past-%02d.json", i%100))
		if err := saveByRename(path, content, Lazy); err != nil {
			return nil, err
		}
	}
	return j, os.WriteFile(count, []byte(fmt.Sprint(max(done, s.Size))), 0o644)
}

func newAfterReads(s Spec) (*job, error) {
	if err := makeOthers(s, s.Size); err != nil {
		return nil, err
	}
	for i := range s.Size {
		if _, err := os.ReadFile(other(s.Root, i)); err != nil {
			return nil, err
		}
	}
	return newOpenRead(s)
}
