package fsck

import (
	"context"
	"errors"
	"fmt"
	"path"

	"golang.org/x/sys/unix"

	"latchfs/journal"
	"latchfs/journal/commit/internal/disk"
	"latchfs/journal/commit/internal/recovery"
	"latchfs/journal/commit/internal/rejected"
)

// salvage deals with all shadows when the journal does not say what each of them
// is for. What can still be read as under way and decided is done again, after what
// is there has been kept: that may be half of it, or a later version. All other
// shadows are kept under rejected/, for one of them may be the only whole version
// of a file that was half overwritten. It may be repeated.
func (p *repair) salvage(ctx context.Context) error {
	var redo []*recovery.Lost
	var remove []journal.Intent
	for _, in := range p.c.journal.Pending {
		switch {
		case recovery.Plausible(in) != nil || !p.c.toRedo(in):
		case recovery.IsShadow(in):
			redo = append(redo, &recovery.Lost{In: in, Shadow: -1, Target: -1})
		case in.Kind == journal.KindRemove:
			remove = append(remove, in)
		}
	}
	defer func() {
		for _, l := range redo {
			l.Close()
		}
	}()
	if err := recovery.Find(p.c.disk, redo); err != nil {
		return err
	}
	for _, l := range redo {
		if err := p.redo(l); err != nil {
			return fmt.Errorf("finish the change of %q: %w", path.Join(l.In.Dir, l.In.Name), err)
		}
	}
	for _, in := range recovery.Inside(remove) {
		if err := p.remove(in); err != nil {
			return fmt.Errorf("finish the removal of %q: %w", path.Join(in.Dir, in.Name), err)
		}
	}
	return p.keepShadows(ctx, func(foundShadow) bool { return true })
}

// keepOrphans keeps the shadows that nothing explains after a clean stop: they came with a
// copy of the data, or are somebody's own files. No mount would look for them.
func (p *repair) keepOrphans(ctx context.Context) error {
	found := false
	err := p.keepShadows(ctx, func(f foundShadow) bool {
		unexplained := p.c.isUnexplained(f)
		found = found || unexplained
		return unexplained
	})
	if err != nil || !found {
		return err
	}
	return p.c.sync()
}

// sync makes everything durable.
func (c *Checked) sync() error {
	return c.disk.Do("syncfs", func() error { return unix.Syncfs(c.disk.StateFD()) })
}

const salvageReason = "what the file held before fsck finished its change, without a journal to say whether it had been"

// redo keeps what the target holds, and finishes the change.
func (p *repair) redo(l *recovery.Lost) error {
	s, kept := p.c, ""
	replace := l.In.Kind == journal.KindReplace
	if replace && l.Shadow >= 0 {
		fd, err := disk.OpenShadow(l.ShadowDir, l.In.Name)
		if err != nil && !disk.Gone(err) {
			return err
		}
		if err == nil {
			l.Target = fd
		}
	}
	if l.Shadow < 0 || l.Target < 0 && !replace {
		return nil // it was done, or its shadow is all that is left
	}
	if l.Target >= 0 {
		id, err := s.keepAside(l.Target, salvageReason, l.In)
		if err != nil {
			return err
		}
		kept = "; what was there before is kept as " + keptPath(id)
	}
	p.noteIntent(l.In, "finished: the new version is in place%s", kept)
	if replace {
		return s.disk.Do("rename", func() error { return unix.Renameat(l.ShadowDir, l.In.Shadow, l.ShadowDir, l.In.Name) })
	}
	with, err := recovery.Restrain(l.In, l.Target)
	if err != nil {
		return err
	}
	if err := s.disk.ApplyInPlace(l.Shadow, l.Target, with, disk.UserXattr); err != nil {
		return err
	}
	return s.disk.Do("unlink", func() error { return unix.Unlinkat(l.ShadowDir, l.In.Shadow, 0) })
}

// remove keeps what a name holds that was to be removed, and removes it.
func (p *repair) remove(in journal.Intent) error {
	s := p.c
	dir, err := s.disk.OpenBelow(in.Dir)
	if disk.Gone(err) {
		return nil
	}
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	fd, err := disk.ReadTarget(dir, in.Name, in)
	if err != nil {
		return err
	}
	kept := ""
	if fd >= 0 { // a file, and still that one
		defer unix.Close(fd)
		id, err := s.keepAside(fd, salvageReason, in)
		if err != nil {
			return err
		}
		kept = "; what it held is kept as " + keptPath(id)
	}
	if err := s.disk.RemoveNamed(dir, in); !errors.Is(err, unix.ENOTEMPTY) && !errors.Is(err, unix.EEXIST) {
		p.noteIntent(in, "the name is removed%s", kept)
		return err
	}
	return nil
}

func keptPath(id string) string { return path.Join(disk.StateDirName, rejected.Dir, id) }

// keepAside keeps what fd holds, of the file that in is about.
func (c *Checked) keepAside(fd int, reason string, in journal.Intent) (id string, err error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return "", err
	}
	meta := map[string]any{"reason": reason}
	if in.Name != "" {
		meta["path"], meta["token"] = path.Join(in.Dir, in.Name), in.Token
	}
	id, err = c.rejects.Put(meta, &st, func(dir int, st *unix.Stat_t) error { return c.rejects.CopyContent(fd, dir, st) })
	if err == nil { // what it is kept from goes next
		err = c.sync()
	}
	return id, err
}

// keepShadows keeps the bytes of every shadow that is chosen, and removes its name.
func (p *repair) keepShadows(ctx context.Context, chosen func(foundShadow) bool) error {
	visit := func(dir int, where string, e disk.Entry) error {
		f := foundShadow{where, e.Name, e.Ino}
		if !disk.Generated(e.Name) || e.IsDir || !chosen(f) {
			return nil
		}
		return p.keepShadow(dir, f)
	}
	if err := p.c.disk.WalkAll(ctx, nil, visit); err != nil {
		return err
	}
	state := p.c.disk.StateFD()
	return disk.ReadDir(state, func(e disk.Entry) error { return visit(state, disk.StateDirName, e) })
}

func (p *repair) keepShadow(dir int, f foundShadow) error {
	s := p.c
	fd, err := disk.OpenShadow(dir, f.name)
	if errors.Is(err, unix.ELOOP) {
		return nil // a link of somebody's
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
		return err
	}
	var of journal.Intent
	for _, in := range p.c.journal.Pending {
		if in.Shadow == f.name {
			of = in
		}
	}
	did := "it was empty, and is removed"
	if st.Size > 0 {
		id, err := s.keepAside(fd, "found by fsck at "+f.path()+": it has the name of a shadow, and no journal says what it was for", of)
		if err != nil {
			return fmt.Errorf("keep %q: %w", f.path(), err)
		}
		did = "its bytes are kept as " + keptPath(id)
	}
	p.note(FindOrphan, f.path(), "%s", did)
	if of.ID != 0 {
		p.noteIntent(of, "the file is left as it is; of the shadow: %s", did)
	}
	return s.disk.Do("unlink", func() error { return unix.Unlinkat(dir, f.name, 0) })
}
