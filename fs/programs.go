package fs

import (
	"bytes"
	"errors"
	"fmt"
	"path"
	"sync"
	"text/tabwriter"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/fs/locksdir"
	"latchfs/lockmgr"
	"latchfs/lockmgr/knowledge"
	"latchfs/lockmgr/policy"
	"latchfs/lockmgr/programs"
)

// programsFile keeps which programs write back what they read. It is written when
// that changes, and at the end.
const programsFile = "programs.json"

// lessons is what is known of programs, for paths with lost-update = "adaptive".
type lessons struct {
	f     *FS
	table *programs.Table // nil where no path asks for it
	file  sync.Mutex      // held while the file is written
}

// openPrograms loads what was learned. A broken file is set aside: what it said will
// be learned again.
func (f *FS) openPrograms() {
	adaptive := f.policy.Defaults().LostUpdate == policy.Adaptive
	for _, r := range f.policy.Rules() {
		adaptive = adaptive || r.LostUpdate == policy.Adaptive
	}
	if !adaptive {
		return
	}
	f.lessons.table = programs.New()
	data, err := f.readState(programsFile)
	if err == nil {
		err = f.lessons.table.Load(data)
	}
	if err == nil || errors.Is(err, unix.ENOENT) {
		return
	}
	dir, aside := int(f.state.Fd()), programsFile+".broken"
	f.log.Warnf("which programs write back what they read has to be learned again: %s cannot be used and is now %s: %v", programsFile, aside, err)
	if err := unix.Renameat(dir, programsFile, dir, aside); err != nil {
		f.log.Warnf("%s: %v", programsFile, err)
	}
}

// save writes what is known.
func (ls *lessons) save() {
	if ls.table == nil {
		return
	}
	ls.file.Lock()
	defer ls.file.Unlock()
	data, err := ls.table.Save()
	if err == nil {
		err = ls.f.writeState(programsFile, data)
	}
	if err != nil {
		ls.f.log.Warnf("what was learned of programs will not be known after a restart: %v", err)
	}
}

// read notes the reader, and returns its program if its reads claim.
func (ls *lessons) read(c *caller, path string, relatives []lockmgr.Owner) (program string, claims bool) {
	program = ls.f.proc.Identify(c.owner.PID).String()
	who := programs.Who{Self: c.owner, Relatives: relatives}
	return program, program != "" && ls.table.Read(time.Now(), path, program, c.uid, who)
}

// wrote notes who has made a new version of a path.
func (ls *lessons) wrote(path string, who knowledge.Who) {
	if ls.table == nil {
		return
	}
	set := ls.f.settings(path)
	if set.LostUpdate != policy.Adaptive {
		return
	}
	if ls.table.Wrote(time.Now(), path, programs.Who{Self: who.Self, Relatives: who.Relatives}, set.Fade) {
		go ls.save()
	}
}

// ended notes what came of a claim, if it was taken because of what was learned.
func (ls *lessons) ended(program string, used bool) {
	if program != "" && ls.table.Ended(program, used) {
		go ls.save()
	}
}

// Programs implements locksdir.Source.
func (s *source) Programs(v locksdir.Viewer) []byte {
	sight := s.Sight(v)
	var b bytes.Buffer
	t := s.f.lessons.table
	if t == nil {
		b.WriteString("No path has lost-update = \"adaptive\": see policy.\n")
		return b.Bytes()
	}
	fmt.Fprintf(&b, "Which programs write back what they read (lost-update = \"adaptive\"). Their reads\n"+
		"claim the file, those of others do not; %d claims in vain in a row end that.\n\n", programs.Forgets)
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "CLAIMS\tREADS\tWRITTEN BACK\tCLAIMED\tIN VAIN\tPROGRAM\tWHY")
	for _, p := range t.List() {
		claims := "no"
		if p.Claims {
			claims = "yes"
		}
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%s\t%s\n", claims, p.Reads, p.Written, p.Claimed, p.InVain, programName(&p, v), whyClaims(&p, sight))
	}
	_ = w.Flush() // into memory
	return b.Bytes()
}

// programName is what a viewer may see of a program: others' arguments are theirs.
func programName(p *programs.Program, v locksdir.Viewer) string {
	name := p.Name
	if !v.Privileged && v.UID != p.UID {
		exe, _, _ := bytes.Cut([]byte(name), []byte(" "))
		name = path.Base(string(exe))
	}
	return locksdir.Display(name)
}

// whyClaims says why a program's reads claim, or why not.
func whyClaims(p *programs.Program, sight locksdir.Sight) string {
	what := "a file"
	if sight == nil || sight.Sees(p.Path, p.UID) {
		what = locksdir.Display(p.Path)
	}
	last := fmt.Sprintf("wrote back %s at %s", what, p.At.Local().Format(time.DateTime))
	switch {
	case p.Claims:
		return last
	case p.Written == 0:
		return "has not been seen to write back what it read"
	}
	return fmt.Sprintf("%s, and then claimed %d times in vain", last, programs.Forgets)
}
