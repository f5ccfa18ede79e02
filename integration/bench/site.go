package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"latchfs/integration/bench/internal/load"
)

// site is where one run keeps everything.
type site struct {
	Dir     string // all below here; removed at the end
	Module  string // root of the source tree, to build from
	Latchfs string // binary to measure; built when empty
	Old     string // the one to compare it with; may be empty
}

// newSite makes the directory of one run. On error nothing is left of it.
func newSite(ctx context.Context, o options) (s *site, err error) {
	s = &site{}
	if s.Module, err = findModule(ctx); err != nil {
		return nil, err
	}
	if s.Latchfs, err = absolute(o.Latchfs); err != nil {
		return nil, err
	}
	if s.Old, err = absolute(o.Old); err != nil {
		return nil, err
	}
	if s.Dir, err = os.MkdirTemp(o.Dir, "latchfs-bench-"); err != nil {
		return nil, err
	}
	if err := s.fill(ctx, o.FS); err != nil {
		return nil, errors.Join(err, s.leave(nil, false))
	}
	return s, nil
}

// absolute is filepath.Abs of a path that may be empty, and then stays so.
func absolute(path string) (string, error) {
	if path == "" {
		return "", nil
	}
	return filepath.Abs(path)
}

func (s *site) fill(ctx context.Context, fs string) error {
	fs, err := chooseFS(fs, s.Dir)
	if err != nil {
		return err
	}
	if fs != fsAsIs {
		if err := mountImage(ctx, fs, s.Dir); err != nil {
			return err
		}
	}
	return load.MakeArchive(s.archive())
}

func (s *site) archive() string { return filepath.Join(s.Dir, "archive.tar") }

// leave takes every mount away and then the files. Files are kept while a mount
// is still there, for removing them would reach through it.
func (s *site) leave(columns []*column, keep bool) error {
	var failed error
	for _, c := range columns {
		failed = errors.Join(failed, c.close())
	}
	for _, c := range columns {
		if c.daemon != nil && isMounted(c.daemon.mountpoint) {
			return errors.Join(failed, fmt.Errorf("%s is still mounted; its files are left", c.daemon.mountpoint))
		}
	}
	if keep {
		return failed
	}
	if err := removeImage(s.Dir); err != nil {
		return errors.Join(failed, err)
	}
	return errors.Join(failed, os.RemoveAll(s.Dir))
}
