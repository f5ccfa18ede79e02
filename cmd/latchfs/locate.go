package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"

	"latchfs/fs/mounts"
	"latchfs/fs/printable"
)

// system is what the commands that take locks need of the machine.
type system struct {
	mounts func(mountinfo.FilterFunc) ([]*mountinfo.Info, error)
	open   func(control string) (*os.File, error)
	// rename gives our process another name; nil where that is not ours to do.
	rename func(program string)
	user   int // who runs us: the effective user id
}

// machine is the system that the program runs on.
func machine() system {
	return system{mounts: mountinfo.GetMounts, open: openControl, rename: renameProcess, user: os.Geteuid()}
}

// renameProcess changes the name under which the audit trail has us.
func renameProcess(program string) {
	_ = os.WriteFile("/proc/self/comm", []byte(program), 0o644) // the old name does, too
}

// callOurselves is the name by which people see what the program does now, up to 15
// bytes (proc(5)).
func (s system) callOurselves(program string) {
	if s.rename != nil {
		s.rename(program)
	}
}

// openControl opens a control file. Not by os.OpenFile: Go would make the
// descriptor non-blocking and poll it, and every process that inherits it would
// have it so.
func openControl(name string) (*os.File, error) {
	for {
		fd, err := unix.Open(name, unix.O_RDWR|unix.O_CLOEXEC, 0)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return nil, &os.PathError{Op: "open", Path: name, Err: err}
		}
		return os.NewFile(uintptr(fd), name), nil
	}
}

// place is where a name leads: a mount of ours, and the path from the root of
// its filesystem, "." for the root itself.
type place struct {
	mount *mountinfo.Info
	path  string
}

// outsideError is the error of a name that is in no mount of ours.
type outsideError struct {
	name  string
	shown string // where a mount shows it, which the name goes past; "" where none does
}

func (e *outsideError) Error() string {
	text := e.name + " is not in a latchfs mount"
	if e.shown != "" {
		text += "; a mount shows it as " + printable.Line(e.shown)
	}
	return text
}

// locate finds out which file an open of this name would reach. The same file
// is the same place from any working directory (SEED M4).
func (s system) locate(name string) (place, error) {
	real, err := realPath(name)
	if err != nil {
		return place{}, err
	}
	return s.placeOf(real, name)
}

// placeOf is the place of a resolved path, which the user has called name.
func (s system) placeOf(real, name string) (place, error) {
	m, err := s.mountOf(real)
	if err != nil {
		return place{}, err
	}
	if m == nil || m.FSType != fsType {
		return place{}, &outsideError{name, s.shownAt(real)}
	}
	rel := path.Join(m.Root, strings.TrimPrefix(real, m.Mountpoint))
	return place{m, cmp.Or(strings.TrimPrefix(rel, "/"), ".")}, nil
}

// mountOf is the mount that a resolved path is in.
func (s system) mountOf(real string) (*mountinfo.Info, error) {
	mounts, err := s.mounts(mountinfo.ParentsFilter(real))
	if err != nil {
		return nil, err
	}
	var m *mountinfo.Info
	for _, x := range mounts {
		if m == nil || len(x.Mountpoint) >= len(m.Mountpoint) {
			m = x
		}
	}
	return m, nil
}

// shownAt is where a mount shows a file of its data directory; "" if no mount does.
func (s system) shownAt(real string) string {
	list, err := s.mounts(mountinfo.FSTypeFilter(fsType))
	if err != nil {
		return ""
	}
	for _, m := range list {
		rel, below := strings.CutPrefix(real+"/", m.Source+"/")
		if below && m.Source != "" && m.Source != m.Mountpoint && m.Root == "/" {
			return path.Join(m.Mountpoint, rel)
		}
	}
	return ""
}

// rooted is the mount that shows the root of m's filesystem, where the control
// file is: m itself, unless it is a bind mount of some directory below.
func (s system) rooted(m *mountinfo.Info) (*mountinfo.Info, error) {
	if m.Root == "/" {
		return m, nil
	}
	mounts, err := s.mounts(mountinfo.FSTypeFilter(fsType))
	if err != nil {
		return nil, err
	}
	for _, x := range mounts {
		if x.Root == "/" && sameFilesystem(x, m) {
			return x, nil
		}
	}
	return nil, fmt.Errorf("%s shows only %s of a latchfs mount, and its root is not mounted here", m.Mountpoint, m.Root)
}

// here is the mount for a command that names no file: the one around the working
// directory, or the only one there is. Whoever is in a mount that is dead, or in a data
// directory that is not mounted, does not mean another one.
func (s system) here() (*mountinfo.Info, error) {
	p, err := s.locateGone(".")
	switch {
	case err == nil:
		return p.mount, nil
	case mounts.IsDead(err):
		return nil, fmt.Errorf("the mount around the working directory is dead: %w; if another one is meant, say which with --mount DIR", err)
	}
	list, err := s.mounts(mountinfo.FSTypeFilter(fsType))
	if err != nil {
		return nil, err
	}
	data, _ := dataRoot(".")
	var only *mountinfo.Info
	for _, m := range list {
		if data != "" && m.Source == data && m.Root == "/" {
			return m, nil // mounted elsewhere
		}
	}
	if data != "" {
		return nil, fmt.Errorf("the working directory is in %s, which is not mounted: if another mount is meant, say which with --mount DIR", data)
	}
	for _, m := range list {
		if only != nil && !sameFilesystem(only, m) {
			return nil, usagef("there is more than one latchfs mount: say which with --mount DIR")
		}
		if only == nil || m.Root == "/" {
			only = m
		}
	}
	if only == nil {
		return nil, errNoMount
	}
	return only, nil
}

// sameFilesystem tells whether two mounts show the same files.
func sameFilesystem(a, b *mountinfo.Info) bool {
	return a.Major == b.Major && a.Minor == b.Minor
}

// realPath is the absolute path, without links, of the file that an open of this
// name reaches or would create. Nothing is cleaned before the links are followed:
// behind one, ".." is another directory.
func realPath(name string) (string, error) {
	full := name
	if !filepath.IsAbs(name) {
		cwd, err := os.Getwd()
		if err != nil {
			return "", err
		}
		full = cwd + "/" + name
	}
	const maxLinks = 40 // as in the kernel
	for range maxLinks {
		real, err := filepath.EvalSymlinks(full)
		if err == nil || !errors.Is(err, os.ErrNotExist) {
			return real, err
		}
		dir, base := filepath.Split(full)
		if dir, err = filepath.EvalSymlinks(dir); err != nil {
			return "", err
		}
		link, err := os.Readlink(filepath.Join(dir, base))
		switch {
		case err != nil: // not there: a file to be
			return filepath.Join(dir, base), nil
		case filepath.IsAbs(link):
			full = link
		default:
			full = dir + "/" + link
		}
	}
	return "", &os.PathError{Op: "open", Path: name, Err: unix.ELOOP}
}
