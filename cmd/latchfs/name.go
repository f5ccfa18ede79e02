package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"latchfs/fs/printable"
)

// locateName is the place of a name itself, as rm(1) and mv(1) understand it: links are
// followed on the way to it, but not if it is one. What is kept under a name is the
// history of what had that name, and whoever makes it a link must not turn a command on
// it against another file. Like locateGone it takes names of what is gone.
func (s system) locateName(name string) (place, error) {
	dir, base := filepath.Split(strings.TrimRight(name, "/"))
	if base == "" || base == "." || base == ".." {
		return s.locateGone(name)
	}
	dir = cmp.Or(dir, ".")
	real, err := realPath(dir)
	if err == nil {
		return s.placeOf(filepath.Join(real, base), name)
	}
	if !isGone(err) {
		return place{}, err
	}
	p, err := s.locateGone(dir)
	p.path = path.Join(p.path, base)
	return p, err
}

// named is at for the name itself.
func (f *viewFlags) named(sys system, name string) (*view, string, error) {
	v, p, err := f.found(sys, name, sys.locateName)
	return v, p, linkExplained(name, err)
}

// linkExplained says of a name outside our mounts that it is a link, for it may lead into
// one.
func linkExplained(name string, err error) error {
	var outside *outsideError
	if errors.As(err, &outside) && isLink(strings.TrimRight(name, "/")) {
		return fmt.Errorf("%w: it is a symbolic link, which is not followed here; name the file itself", err)
	}
	return err
}

// about is the mount and path that a question by this name is about: the name itself, or,
// if that is a link of which no version is known, what it leads to. A warning says so.
func (f *viewFlags) about(cmd *cobra.Command, sys system, name string) (*view, string, error) {
	v, p, err := f.named(sys, name)
	if err == nil && !isLink(v.file(p)) {
		return v, p, nil
	}
	if err == nil {
		all, err := v.histories([]string{p})
		if err != nil || len(all) > 0 {
			return v, p, err
		}
	}
	to, q, gone := f.at(sys, name)
	switch {
	case gone != nil && err != nil:
		return nil, "", err
	case gone != nil:
		return nil, "", fmt.Errorf("no version of %s is known; it is a symbolic link, and %w", printable.Line(p), leadsOut(v.file(p), gone))
	case err != nil || q != p:
		warn(cmd, "%s is a symbolic link: this is about %s", printable.Line(name), printable.Line(q))
	}
	return to, q, nil
}

// leadsOut says where a link leads if that is out of our mounts.
func leadsOut(link string, err error) error {
	var outside *outsideError
	if target, no := os.Readlink(link); no == nil && errors.As(err, &outside) {
		return &outsideError{name: printable.Line(target)}
	}
	return err
}
