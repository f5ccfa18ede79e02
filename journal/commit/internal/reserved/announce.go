package reserved

import (
	"latchfs/journal"
	"latchfs/journal/commit/internal/disk"
)

// Announced is a name that a file is about to get: the journal knows, and the name is not there.
type Announced struct {
	disk    *disk.Disk
	in      journal.Intent
	written bool // the journal was written back with it
}

// Announce claims a name and records the intent in, completed with it.
func Announce(d *disk.Disk, in journal.Intent) (*Announced, error) {
	in.Shadow = d.ClaimName()
	var err error
	if in.ID, err = d.Begin(in); err != nil {
		d.Release(in.Shadow)
		return nil, err
	}
	return &Announced{disk: d, in: in}, nil
}

// Intent is what the journal says.
func (a *Announced) Intent() journal.Intent { return a.in }

// IsWritten reports whether WriteBack has sent that to the disk.
func (a *Announced) IsWritten() bool { return a.written }

// WriteBack sends what the open file fd holds to the disk, and the journal with it, and does
// not wait until the disk keeps them.
func (a *Announced) WriteBack(fd int) error {
	err := a.disk.Both(
		disk.Step{Name: "writeback", Do: func() error { return journal.WriteBack(fd) }},
		disk.Step{Name: "writejournal", Do: a.disk.Journal.WriteBack},
	)
	a.written = err == nil
	return err
}

// Drop takes back what was announced and is not needed.
func (a *Announced) Drop() error {
	if a == nil {
		return nil
	}
	err := a.disk.Done(a.in.ID)
	if err != nil {
		a.disk.Abandon(a.in)
	}
	a.disk.Release(a.in.Shadow)
	return err
}

// Adopt makes what was announced the name, in dir. The file gets it afterwards. After an
// error it is still announced.
func (n *Name) Adopt(a *Announced, dir int) error {
	own, err := dup(dir)
	if err != nil {
		return err
	}
	n.in, n.dir, n.borrowed = a.in, own, false
	return nil
}
