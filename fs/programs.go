package fs

import (
	"errors"

	"golang.org/x/sys/unix"

	"latchfs/fs/lessons"
	"latchfs/fs/report"
	"latchfs/lockmgr/policy"
)

// programsFile keeps which programs write back what they read. It is written when
// that changes, and at the end.
const programsFile = "programs.json"

// openPrograms loads what was learned, where a path asks for that. A broken file is set
// aside: what it said will be learned again.
func (f *FS) openPrograms() {
	adaptive := f.rules.policy.Defaults().LostUpdate == policy.Adaptive
	for _, r := range f.rules.policy.Rules() {
		adaptive = adaptive || r.LostUpdate == policy.Adaptive
	}
	if !adaptive {
		return
	}
	f.losses.lessons = lessons.New(
		func(data []byte) error { return f.disk.writeState(programsFile, data) },
		func(err error) {
			f.disk.log.Warnf("what was learned of programs will not be known after a restart: %v", err)
		})
	data, err := f.disk.readState(programsFile)
	if err == nil {
		err = f.losses.lessons.Load(data)
	}
	if err == nil || errors.Is(err, unix.ENOENT) {
		return
	}
	dir, aside := int(f.disk.state.Fd()), programsFile+".broken"
	f.disk.log.Warnf("which programs write back what they read has to be learned again: %s cannot be used and is now %s: %v", programsFile, aside, err)
	if err := unix.Renameat(dir, programsFile, dir, aside); err != nil {
		f.disk.log.Warnf("%s: %v", programsFile, err)
	}
}

// Programs implements locksdir.Source.
func (s *source) Programs(v report.Viewer) []byte { return s.f.losses.lessons.Show(v, s.Sight(v)) }
