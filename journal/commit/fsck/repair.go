package fsck

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"latchfs/journal"
	"latchfs/journal/audit"
	"latchfs/journal/commit/internal/disk"
	"latchfs/journal/commit/internal/recovery"
	"latchfs/journal/commit/internal/rejected"
	"latchfs/journal/history"
)

// Repair puts right what can be put right of what c has found, as the next
// mount's recovery and sweep would do it, and besides what no mount does: a
// journal that cannot be read, or has lost records, is kept aside and a new one
// begun; damaged lines of the audit trail and damaged entries of the rejected store
// are kept aside, too. No bytes are removed for which the reason cannot be read.
//
// It returns what was found, with what was done about each, and what is found
// afterwards that was not there before. A finding without Done is as it was. Nothing is done
// if the state directory is not latchfs's, or the journal of another version: the findings say
// so. logf takes what the journal has to say. No daemon may have the data root.
func (c *Checked) Repair(ctx context.Context, logf func(string, ...any)) ([]journal.Finding, error) {
	switch {
	case c.notOurs:
		return c.Findings, nil
	case c.journal.Foreign:
		return c.Findings, nil
	}
	p := &repair{c: c, done: map[string]string{}}
	err := p.run(ctx, logf)
	after, checkErr := Check(ctx, c.disk.Root, c.disk.State)
	if checkErr != nil {
		return c.Findings, errors.Join(err, checkErr)
	}
	return p.settle(after), err
}

// repair is one run of Repair.
type repair struct {
	c     *Checked
	done  map[string]string // what was done, by key of the finding
	aside string            // the name that the old journal has now; "" if it was not replaced
}

// key and intentKey identify a finding.
func key(kind, path string) string { return kind + "\x00" + path }
func intentKey(id uint64) string   { return FindIntent + "\x00" + strconv.FormatUint(id, 10) }

// note records what was done about something.
func (p *repair) note(kind, path, format string, args ...any) {
	p.done[key(kind, path)] = fmt.Sprintf(format, args...)
}

func (p *repair) run(ctx context.Context, logf func(string, ...any)) error {
	if err := p.stateDir(); err != nil {
		return err
	}
	switch {
	case p.c.journal.Lost:
		if err := p.replaceJournal(ctx); err != nil {
			return err
		}
	case p.c.journal.Clean:
		if err := p.keepOrphans(ctx); err != nil {
			return err
		}
	}
	aside, err := audit.Repair(p.c.disk.State)
	if err != nil {
		return err
	}
	if aside != "" {
		for _, name := range audit.Names() {
			p.note(journal.FindDamagedEvent, path.Join(disk.StateDirName, name), "moved to %s", path.Join(disk.StateDirName, aside))
		}
	}
	if err := errors.Join(p.rejected(), p.history()); err != nil {
		return err
	}
	return errors.Join(p.recover(ctx, logf), p.openHistory(logf))
}

// stateDir gives the state directory its mode.
func (p *repair) stateDir() error {
	var st unix.Stat_t
	if unix.Fstat(p.c.disk.StateFD(), &st) == nil && st.Mode&0o7777 == 0o700 {
		return nil
	}
	return p.c.disk.Do("chmod", func() error { return unix.Fchmod(p.c.disk.StateFD(), 0o700) })
}

// recover does what a mount does at its start, and its sweep.
func (p *repair) recover(ctx context.Context, logf func(string, ...any)) error {
	j, err := rejected.AtStart(p.c.disk.State, func() (*journal.Journal, error) {
		return journal.Open(p.c.disk.State, journal.Options{Logf: logf})
	})
	if err != nil {
		return err
	}
	trail, err := audit.Open(p.c.disk.State, 0)
	if err != nil {
		return errors.Join(err, j.Close())
	}
	d := disk.New(p.c.disk.Root, p.c.disk.State, j)
	s := recovery.New(d, rejected.New(d))
	r, err := s.Recover()
	var swept recovery.Report
	var sweepErr error
	if r.SweepDue {
		swept, sweepErr = s.Sweep(ctx)
	}
	r.Removed = append(r.Removed, swept.Removed...)
	for _, in := range r.Undone {
		p.noteIntent(in, "the shadow is removed, and the old version stands")
	}
	for _, in := range r.Redone {
		p.noteIntent(in, "finished: the new version is in place")
	}
	for _, k := range r.Changed {
		if k.Stands {
			p.noteIntent(k.In, "somebody has changed the file since, and it is left as it is; what its commit was to write is kept as %s", keptPath(k.Kept))
			continue
		}
		p.noteIntent(k.In, "finished: the new version is in place; what was there before is kept as %s", keptPath(k.Kept))
	}
	for _, k := range r.Synced {
		if k.Kept == "" {
			p.noteIntent(k.In, "the file has appeared as its writer had synced it")
			continue
		}
		p.noteIntent(k.In, "what its writer had synced is kept as %s", keptPath(k.Kept))
	}
	for _, name := range r.Removed {
		p.note(FindOrphan, name, "removed")
	}
	if len(r.Undone)+len(r.Redone)+len(r.Removed)+len(r.Salvaged)+len(r.Synced) > 0 || p.aside != "" {
		detail := map[string]any{
			"by": "fsck", "undone": len(r.Undone), "redone": len(r.Redone), "removed": r.Removed, "salvaged": r.Salvaged, "changed": len(r.Changed), "synced": len(r.Synced),
		}
		if p.aside != "" {
			detail["journal"] = p.aside
		}
		err = errors.Join(err, trail.Append(audit.Event{Event: "recovery", Detail: detail}))
	}
	return errors.Join(err, sweepErr, j.Close(), trail.Close())
}

func (p *repair) noteIntent(in journal.Intent, format string, args ...any) {
	p.done[intentKey(in.ID)] = fmt.Sprintf(format, args...)
}

// replaceJournal deals with everything that the lost records may have been about
// and then begins a new journal. In this order: until it is done no mount goes on.
func (p *repair) replaceJournal(ctx context.Context) error {
	if err := p.salvage(ctx); err != nil {
		return err
	}
	// What was salvaged has to be on disk before the records that named it are put aside.
	err := p.c.disk.Do("syncfs", func() error { return unix.Syncfs(p.c.disk.StateFD()) })
	if err != nil {
		return err
	}
	aside, err := p.c.journal.Renew(p.c.disk.State)
	if err != nil {
		return err
	}
	p.aside = aside
	for _, f := range p.c.Findings {
		switch {
		case f.Kind != journal.FindCorrupt && f.Kind != journal.FindLost:
		case aside == "":
			p.note(f.Kind, f.Path, "a new journal is begun; its fencing tokens are above all that were ever issued")
		default:
			p.note(f.Kind, f.Path, "kept as %s, and a new journal is begun; its fencing tokens are above all that were ever issued",
				path.Join(disk.StateDirName, aside))
		}
	}
	return nil
}

// history keeps a history that cannot be read aside, contents and all: a new log
// would not name them, and what no record names is removed.
func (p *repair) history() error {
	state := p.c.disk.StateFD()
	for _, f := range p.c.Findings {
		if f.Kind != history.FindCorrupt {
			continue
		}
		aside := "corrupt-" + history.Dir
		for n := 1; ; n++ {
			err := p.c.disk.Do("rename", func() error { return unix.Renameat2(state, history.Dir, state, aside, unix.RENAME_NOREPLACE) })
			if err == nil {
				break
			}
			if !errors.Is(err, unix.EEXIST) {
				return fmt.Errorf("keep the history aside: %w", err)
			}
			aside = fmt.Sprintf("corrupt-%s.%d", history.Dir, n)
		}
		p.note(f.Kind, f.Path, "the history is kept as %s, and a new one is begun", path.Join(disk.StateDirName, aside))
	}
	return nil
}

// openHistory lets the history remove what a crash has left in it, as it does at
// every start.
func (p *repair) openHistory(logf func(string, ...any)) error {
	err := unix.Faccessat(p.c.disk.StateFD(), history.Dir, unix.F_OK, 0)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	h, err := history.Open(p.c.disk.State, history.Options{Logf: logf})
	if err != nil {
		return err
	}
	return h.Close()
}

// settle says of each finding what was done about it, as far as it is gone, and
// adds what is new.
func (p *repair) settle(after *Checked) []journal.Finding {
	all := p.c.Findings
	for i := range all {
		if f := &all[i]; !after.has(*f) {
			f.Done = cmp.Or(p.done[p.c.key(i)], routine[f.Kind], "repaired")
		}
	}
	for _, f := range after.Findings {
		if !p.c.has(f) && f.Kind != journal.FindKeptAside {
			all = append(all, f)
		}
	}
	return all
}

// has reports whether a finding is among those of c.
func (c *Checked) has(f journal.Finding) bool {
	return slices.ContainsFunc(c.Findings, func(g journal.Finding) bool {
		return f.Kind == g.Kind && f.Path == g.Path && f.What == g.What
	})
}

// key is what the finding with that index has in repair.done.
func (c *Checked) key(i int) string {
	if id, ok := c.intents[i]; ok {
		return intentKey(id)
	}
	return key(c.Findings[i].Kind, c.Findings[i].Path)
}

// routine is what every start does about some kinds of findings.
var routine = map[string]string{
	FindStateDir:             "mode set to 0700",
	FindBadIntent:            "nothing; a new journal is begun without it",
	FindIntent:               "nothing was left to do; it is forgotten",
	FindHalfRejected:         "finished",
	history.FindContent:      "removed",
	history.FindLeftover:     "removed",
	journal.FindTornTail:     "cut off",
	journal.FindUnclean:      "everything it left is dealt with",
	journal.FindOldSegment:   "removed",
	journal.FindNewSegment:   "removed",
	journal.FindDamagedEvent: "moved aside",
}
