package ctl

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"latchfs/fs/control"
	"latchfs/fs/lockkey"
)

// What one request may name: the lock table takes all of it in one step, in which
// nobody else is served.
const (
	maxTargets     = 1000
	maxTargetBytes = 256 << 10
)

// targetOf reads what a request names. Paths are relative to the mount's root.
func (s *Server) targetOf(r *control.Request) (lockkey.Target, error) {
	t := lockkey.Target{Names: r.Names}
	size := 0
	for _, p := range slices.Concat(r.Paths, r.Trees, r.Names) {
		size += len(p)
	}
	if len(r.Paths)+len(r.Trees)+len(r.Names) > maxTargets || size > maxTargetBytes {
		return t, fmt.Errorf("one request is for up to %d paths, trees and names, with up to %d bytes", maxTargets, maxTargetBytes)
	}
	for _, p := range r.Paths {
		clean, err := s.cleanPath(p)
		if err == nil && clean == "" {
			err = errors.New("the root of the mount is locked as a tree")
		}
		if err != nil {
			return t, err
		}
		t.Paths = append(t.Paths, clean)
	}
	for _, p := range r.Trees {
		clean, err := s.cleanPath(p)
		if err != nil {
			return t, err
		}
		t.Trees = append(t.Trees, clean)
	}
	t.Paths, t.Trees, t.Names = lockkey.Set(t.Paths), lockkey.Set(t.Trees), lockkey.Set(t.Names)
	return t, nil
}

// askedAbout are the things that a request names, which targetOf has read: one for
// each path, tree and name, in its order, with those that it names twice.
func (s *Server) askedAbout(r *control.Request) []lockkey.Target {
	out := make([]lockkey.Target, 0, len(r.Paths)+len(r.Trees)+len(r.Names))
	for _, p := range r.Paths {
		if clean, err := s.cleanPath(p); err == nil {
			out = append(out, lockkey.Target{Paths: []string{clean}})
		}
	}
	for _, p := range r.Trees {
		if clean, err := s.cleanPath(p); err == nil {
			out = append(out, lockkey.Target{Trees: []string{clean}})
		}
	}
	for _, n := range r.Names {
		out = append(out, lockkey.Target{Names: []string{n}})
	}
	return out
}

// cleanPath spells a path as the lock table does.
func (s *Server) cleanPath(p string) (string, error) {
	clean := strings.TrimPrefix(path.Clean("/"+p), "/")
	if strings.ContainsRune(p, 0) || len(p) >= unix.PathMax {
		return "", fmt.Errorf("%.100q is no path", p)
	}
	if slices.Contains(strings.Split(p, "/"), "..") {
		return "", fmt.Errorf("%q: no component of a path may be \"..\" here", p)
	}
	for i, c := range strings.Split(clean, "/") {
		if len(c) > unix.NAME_MAX {
			return "", fmt.Errorf("%.100q: a name has up to %d bytes", p, unix.NAME_MAX)
		}
		if s.Engine.Reserved(c, i == 0) {
			return "", fmt.Errorf("%q: the name %s is reserved", p, c)
		}
	}
	return clean, nil
}
