package main

import (
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/moby/sys/mountinfo"
	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
)

// view is a mount for the commands that read what .locks shows and write files as
// any other program does.
type view struct {
	root  string // where the root of the filesystem is mounted
	locks string // the virtual directory
}

// viewFlags are the flags that say in which mount to look.
type viewFlags struct {
	mount    string
	locksDir string
}

func (f *viewFlags) register(cmd *cobra.Command) {
	cmd.Flags().SortFlags = false
	cmd.Flags().StringVar(&f.mount, "mount", "", "the mount that `DIR` is in (default: the one around the working directory, or the only one)")
	_ = cmd.MarkFlagDirname("mount") // fails for a flag that is not there
	registerLocksDir(cmd, &f.locksDir)
}

// here is the mount for a command that names no file.
func (f *viewFlags) here(sys system) (*view, error) {
	if f.mount != "" {
		v, _, err := f.at(sys, f.mount)
		return v, err
	}
	m, err := sys.here()
	if err != nil {
		return nil, err
	}
	return f.of(sys, m)
}

// at is the mount that a file is in, or was in, and its path there.
func (f *viewFlags) at(sys system, name string) (*view, string, error) {
	return f.found(sys, name, sys.locateGone)
}

// found is at with another way to find the place.
func (f *viewFlags) found(sys system, name string, find func(string) (place, error)) (*view, string, error) {
	p, err := f.locate(sys, name, find)
	if err != nil {
		return nil, "", err
	}
	v, err := f.of(sys, p.mount)
	return v, p.path, err
}

// locate is the place of a file that is, or was, in the mount that the user has named, if any;
// find finds it.
func (f *viewFlags) locate(sys system, name string, find func(string) (place, error)) (place, error) {
	p, err := find(name)
	if f.mount == "" || name == f.mount {
		return p, err
	}
	if err != nil {
		return place{}, fmt.Errorf("%w; --mount does not say where a file is: give its whole path", err)
	}
	in, err := sys.locateGone(f.mount)
	if err != nil {
		return place{}, err
	}
	if !sameFilesystem(in.mount, p.mount) {
		return place{}, usagef("%s is in the mount %s, and --mount says %s", name, p.mount.Mountpoint, in.mount.Mountpoint)
	}
	return p, nil
}

// under is the mount of several files, which must be the same, and their paths
// there; without files it is here.
func (f *viewFlags) under(sys system, files []string) (*view, []string, error) {
	if len(files) == 0 {
		v, err := f.here(sys)
		return v, nil, err
	}
	var v *view
	var paths []string
	for _, file := range files {
		at, p, err := f.at(sys, file)
		switch {
		case err != nil:
			return nil, nil, err
		case v != nil && *at != *v:
			return nil, nil, usagef("%s is in the mount %s, not in %s: one command is about one mount", file, at.root, v.root)
		}
		v = at
		paths = append(paths, p)
	}
	return v, paths, nil
}

func (f *viewFlags) of(sys system, m *mountinfo.Info) (*view, error) {
	m, err := sys.rooted(m)
	if err != nil {
		return nil, err
	}
	v := &view{root: m.Mountpoint, locks: filepath.Join(m.Mountpoint, f.locksDir)}
	if _, err := os.Stat(v.locks); err != nil {
		if errors.Is(err, os.ErrNotExist) {
			err = fmt.Errorf("%w; if mount was given another --locks-dir, say it here, too", err)
		}
		return nil, err
	}
	return v, nil
}

// file is a file of the mount by its path there.
func (v *view) file(p string) string { return filepath.Join(v.root, p) }

// locateGone is locate for a file that may be gone along with its directories, the
// working directory among them.
func (s system) locateGone(name string) (place, error) {
	p, err := s.locate(name)
	if !isGone(err) {
		return p, err
	}
	if !filepath.IsAbs(name) {
		was, gone, e := formerDir()
		switch {
		case e != nil:
			return place{}, e
		case gone:
			return s.locateGone(filepath.Join(was, name)) // no links are in its way
		}
	}
	dir, base := filepath.Split(strings.TrimRight(name, "/"))
	if base == "" || base == "." && dir == "" {
		return place{}, err
	}
	if dir == "" {
		dir = "."
	}
	p, err = s.locateGone(dir)
	p.path = path.Join(p.path, base)
	return p, err
}

// isGone tells from the error of a name that there is nothing, perhaps because what was a
// directory on the way is another file now.
func isGone(err error) bool {
	return errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ENOTDIR)
}

// formerDir is where the working directory was if it has been removed.
func formerDir() (name string, gone bool, err error) {
	if _, err := os.Getwd(); !errors.Is(err, os.ErrNotExist) {
		return "", false, err
	}
	link, err := os.Readlink("/proc/self/cwd")
	if err != nil {
		return "", false, err
	}
	name, gone = strings.CutSuffix(link, " (deleted)") // proc(5)
	if !gone || !filepath.IsAbs(name) {
		return "", false, errors.New("the working directory does not exist any more: give the full path of the file, or cd to another directory")
	}
	return name, true, nil
}

// isBelow tells whether a path is one of some others or below it; below none
// everything is.
func isBelow(p string, tops []string) bool {
	for _, top := range tops {
		if top == "." || p == top || strings.HasPrefix(p, top+"/") {
			return true
		}
	}
	return len(tops) == 0
}

// named is a path in the JSON of .locks: where it is not UTF-8 the real one stands
// beside it.
type named struct {
	Path       string `json:"path"`
	PathBase64 string `json:"path_base64,omitempty"`
}

// real is the path itself.
func (n named) real() string {
	if b, err := base64.StdEncoding.DecodeString(n.PathBase64); err == nil && len(b) > 0 {
		return string(b)
	}
	return n.Path
}
