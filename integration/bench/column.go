package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"latchfs/integration/bench/internal/load"
)

// column is one way to reach the files: the plain directory or a mount.
type column struct {
	ID    string
	Title string // head of the table
	About string // version and options, for the report

	IsLatchfs   bool // open, write, close is a safe save
	CommitsOnly bool // measured only where durability matters
	ReadsOnly   bool // measured only where reads are noted elsewhere
	Durability  load.Durability
	NoTargets   bool // shown without verdicts

	root   string  // where clients work
	data   string  // the files below the mount
	daemon *daemon // nil: the plain directory
	broken error   // why it is not measured (any more)
}

// The columns by name, in the order of the table.
const (
	plainColumn     = "plain"
	loopbackColumn  = "loopback"
	bindfsColumn    = "bindfs"
	latchfsColumn   = "latchfs"
	fullColumn      = "full"
	orderedColumn   = "ordered"
	lazyColumn      = "lazy"
	pageCacheColumn = "no-passthrough"
	untrackedColumn = "untracked"
	oldColumn       = "old" // with -old
)

// columnIDs are the choices of -columns.
func columnIDs() []string {
	return []string{plainColumn, loopbackColumn, bindfsColumn, latchfsColumn, fullColumn, orderedColumn, lazyColumn, pageCacheColumn, untrackedColumn}
}

// openColumns makes the fixtures of every wanted column and mounts it. A column
// that cannot be had is returned broken, with the reason, and not measured.
func (s *site) openColumns(ctx context.Context, ids []string, logf func(string, ...any)) ([]*column, error) {
	var all []*column
	for _, id := range append(columnIDs(), oldColumn) {
		if !slices.Contains(ids, id) {
			continue
		}
		c := newColumn(id)
		all = append(all, c)
		data := filepath.Join(s.Dir, id, "data")
		if err := os.MkdirAll(data, 0o755); err != nil {
			return all, err
		}
		if err := load.MakeFixtures(data); err != nil {
			return all, fmt.Errorf("files of column %s: %w", id, err)
		}
		c.root, c.data = data, data
		if id == plainColumn {
			continue
		}
		if c.broken = s.mount(ctx, c, data); c.broken != nil {
			logf("%s is left out: %v", id, c.broken)
		}
		if ctx.Err() != nil {
			return all, ctx.Err()
		}
	}
	return all, nil
}

func newColumn(id string) *column {
	c := &column{ID: id, Title: id}
	switch id {
	case plainColumn:
		c.Title, c.About = "plain directory", "no mount"
	case latchfsColumn:
		c.Title, c.About, c.IsLatchfs = "latchfs", "durability auto, the default", true
		c.Durability = load.Auto
	case fullColumn:
		c.Title, c.About, c.IsLatchfs, c.CommitsOnly = "latchfs, full", "--durability full", true, true
		c.Durability = load.Full
	case orderedColumn:
		c.Title, c.About, c.IsLatchfs, c.CommitsOnly = "latchfs, ordered", "--durability ordered", true, true
		c.Durability = load.Ordered
	case lazyColumn:
		c.Title, c.About, c.IsLatchfs, c.CommitsOnly = "latchfs, lazy", "--durability lazy", true, true
		c.Durability = load.Lazy
	case pageCacheColumn:
		c.Title, c.About, c.IsLatchfs = "latchfs, no passthrough", "durability auto, --no-passthrough", true
		c.Durability = load.Auto
		c.NoTargets = true // DESIGN asks of it to work, slower
	case untrackedColumn:
		c.Title, c.About, c.IsLatchfs, c.ReadsOnly = "latchfs, untracked", "lost-update = \"off\"", true, true
		c.Durability = load.Auto
		c.NoTargets = true // what the others are compared with
	case oldColumn:
		c.Title, c.About, c.IsLatchfs = "latchfs, old", "another binary, with its defaults", true
		c.Durability = load.Auto
		c.NoTargets = true // what the new one is compared with
	}
	return c
}

// mount starts the column's daemon over data and points the column at it.
func (s *site) mount(ctx context.Context, c *column, data string) error {
	mountpoint := filepath.Join(s.Dir, c.ID, "mnt")
	if err := os.MkdirAll(mountpoint, 0o755); err != nil {
		return err
	}
	command, about, err := s.command(ctx, c.ID, data, mountpoint)
	if err != nil {
		return err
	}
	if about != "" {
		c.About = about
	}
	c.root = mountpoint
	c.daemon, err = startDaemon(ctx, command, mountpoint, filepath.Join(s.Dir, c.ID, "log"))
	return err
}

// command is how the column's daemon runs in the foreground.
func (s *site) command(ctx context.Context, id, data, mountpoint string) (command []string, about string, err error) {
	root := os.Geteuid() == 0
	switch id {
	case loopbackColumn:
		binary, version, err := s.buildLoopback(ctx)
		if err != nil {
			return nil, "", err
		}
		command = []string{binary}
		if root {
			command = append(command, "-allow-other")
		}
		return append(command, mountpoint, data), "go-fuse " + version + ", example/loopback " + strings.Join(command[1:], " "), nil
	case bindfsColumn:
		binary, err := exec.LookPath("bindfs")
		if err != nil {
			return nil, "", errors.New("not installed (Debian package bindfs)")
		}
		version, err := output(ctx, binary, "--version")
		return []string{binary, "-f", data, mountpoint}, version + ", its defaults (one thread)", err
	}
	binary, err := s.buildLatchfs(ctx)
	if err != nil {
		return nil, "", err
	}
	command = []string{binary, "mount", "--foreground"}
	switch id {
	case oldColumn:
		command[0] = s.Old
	case fullColumn, orderedColumn, lazyColumn:
		command = append(command, "--durability", id)
	case pageCacheColumn:
		command = append(command, "--no-passthrough")
	case untrackedColumn:
		config := filepath.Join(s.Dir, "untracked.toml")
		if err := os.WriteFile(config, []byte("[defaults]\nlost-update = \"off\"\n"), 0o644); err != nil {
			return nil, "", err
		}
		command = append(command, "--config", config)
	}
	return append(command, data, mountpoint), "", nil
}

// close unmounts; the plain directory has nothing to close.
func (c *column) close() error {
	if c.daemon == nil {
		return nil
	}
	return c.daemon.stop()
}

// failed says why the column cannot be measured, nil when it can.
func (c *column) failed() error {
	if c.broken == nil && c.daemon != nil {
		c.broken = c.daemon.died()
	}
	return c.broken
}
