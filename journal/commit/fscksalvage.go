package commit

import (
	"context"
	"errors"
	"fmt"
	"path"

	"golang.org/x/sys/unix"

	"latchfs/journal"
)

// salvage deals with all shadows when the journal does not say what each of them
// is for. What can still be read as under way and decided is done again, after what
// is there has been kept: that may be half of it, or a later version. All other
// shadows are kept under rejected/, for one of them may be the only whole version
// of a file that was half overwritten. It may be repeated.
func (p *repair) salvage(ctx context.Context) error {
	var redo []*lostRedo
	var remove []journal.Intent
	for _, in := range p.c.journal.Pending {
		switch {
		case plausible(in) != nil || !p.c.toRedo(in):
		case isShadow(in):
			redo = append(redo, &lostRedo{in: in, shadow: -1, target: -1})
		case in.Kind == journal.KindRemove:
			remove = append(remove, in)
		}
	}
	defer func() {
		for _, l := range redo {
			l.close()
		}
	}()
	if err := findLost(p.c.disk, redo); err != nil {
		return err
	}
	for _, l := range redo {
		if err := p.redo(l); err != nil {
			return fmt.Errorf("finish the change of %q: %w", path.Join(l.in.Dir, l.in.Name), err)
		}
	}
	for _, in := range inside(remove) {
		if err := p.remove(in); err != nil {
			return fmt.Errorf("finish the removal of %q: %w", path.Join(in.Dir, in.Name), err)
		}
	}
	return p.keepShadows(ctx)
}

const salvageReason = "what the file held before fsck finished its change, without a journal to say whether it had been"

// redo keeps what the target holds, and finishes the change.
func (p *repair) redo(l *lostRedo) error {
	s, kept := p.c, ""
	replace := l.in.Kind == journal.KindReplace
	if replace && l.shadow >= 0 {
		fd, err := openShadow(l.shadowDir, l.in.Name)
		if err != nil && !gone(err) {
			return err
		}
		if err == nil {
			l.target = fd
		}
	}
	if l.shadow < 0 || l.target < 0 && !replace {
		return nil // it was done, or its shadow is all that is left
	}
	if l.target >= 0 {
		id, err := s.keepAside(l.target, salvageReason, l.in)
		if err != nil {
			return err
		}
		kept = "; what was there before is kept as " + keptPath(id)
	}
	p.noteIntent(l.in, "finished: the new version is in place%s", kept)
	if replace {
		return s.do("rename", func() error { return unix.Renameat(l.shadowDir, l.in.Shadow, l.shadowDir, l.in.Name) })
	}
	with, err := restrain(l.in, l.target)
	if err != nil {
		return err
	}
	if err := s.applyInPlace(l.shadow, l.target, with, userXattr); err != nil {
		return err
	}
	return s.do("unlink", func() error { return unix.Unlinkat(l.shadowDir, l.in.Shadow, 0) })
}

// remove keeps what a name holds that was to be removed, and removes it.
func (p *repair) remove(in journal.Intent) error {
	s := p.c
	dir, err := s.openBelow(in.Dir)
	if gone(err) {
		return nil
	}
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	fd, err := openTarget(dir, in.Name, in)
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
	if err := s.removeNamed(dir, in); !errors.Is(err, unix.ENOTEMPTY) && !errors.Is(err, unix.EEXIST) {
		p.noteIntent(in, "the name is removed%s", kept)
		return err
	}
	return nil
}

func keptPath(id string) string { return path.Join(StateDirName, RejectedDir, id) }

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
	return c.rejects.keep(meta, &st, func(dir int, st *unix.Stat_t) error { return c.rejects.copyKept(fd, dir, st) })
}

// keepShadows keeps the bytes of every shadow, and removes its name.
func (p *repair) keepShadows(ctx context.Context) error {
	visit := func(dir int, where string, e dirent) error {
		if !generated(e.name) || e.dir {
			return nil
		}
		return p.keepShadow(dir, foundShadow{where, e.name, e.ino})
	}
	if err := p.c.walkAll(ctx, nil, visit); err != nil {
		return err
	}
	state := p.c.stateFD()
	return readDir(state, func(e dirent) error { return visit(state, StateDirName, e) })
}

func (p *repair) keepShadow(dir int, f foundShadow) error {
	s := p.c
	fd, err := openShadow(dir, f.name)
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
		id, err := s.keepAside(fd, "a shadow found by fsck at "+f.path()+", without a journal to say what it was for", of)
		if err != nil {
			return fmt.Errorf("keep %q: %w", f.path(), err)
		}
		did = "its bytes are kept as " + keptPath(id)
	}
	p.note(FindOrphan, f.path(), "%s", did)
	if of.ID != 0 {
		p.noteIntent(of, "the file is left as it is; of the shadow: %s", did)
	}
	return s.do("unlink", func() error { return unix.Unlinkat(dir, f.name, 0) })
}
