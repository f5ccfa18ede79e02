// Package lessons keeps what is learned of programs, for paths with lost-update =
// "adaptive": which programs write back what they read, so that their reads claim the
// file (package programs). It writes that down whenever it has changed, and shows it
// in .locks/programs.
//
// Nobody waits for what is learned to be written: a save is a goroutine, and the last one
// is made at the end (Save). What a save writes is what is known then, and not what was
// known when it was asked for.
//
// A nil *Lessons learns nothing: no path asks for it.
//
// Lessons.file is held while the file is written, so that the last one to write has
// written the most. Nobody takes another mutex while holding it, but for the table's own.
package lessons

import (
	"bytes"
	"fmt"
	"path"
	"sync"
	"text/tabwriter"
	"time"

	"latchfs/fs/printable"
	"latchfs/fs/report"
	"latchfs/lockmgr"
	"latchfs/lockmgr/knowledge"
	"latchfs/lockmgr/programs"
)

// Lessons is what is known of programs.
type Lessons struct {
	table  *programs.Table
	write  func(data []byte) error
	failed func(error)
	file   sync.Mutex // held while the file is written
}

// New makes Lessons that know nothing yet; write keeps what they know over a restart, and
// failed is told when that could not be done.
func New(write func(data []byte) error, failed func(error)) *Lessons {
	return &Lessons{table: programs.New(), write: write, failed: failed}
}

// Load takes over what was written. After an error nothing is known.
func (ls *Lessons) Load(data []byte) error { return ls.table.Load(data) }

// Save writes what is known.
func (ls *Lessons) Save() {
	if ls == nil {
		return
	}
	ls.file.Lock()
	defer ls.file.Unlock()
	data, err := ls.table.Save()
	if err == nil {
		err = ls.write(data)
	}
	if err != nil {
		ls.failed(err)
	}
}

// Read notes that a process of a program and a user, with its relatives, reads a path.
// It reports whether reads of the program claim. A program without a name learns nothing.
func (ls *Lessons) Read(path, program string, uid uint32, self lockmgr.Owner, relatives []lockmgr.Owner) (claims bool) {
	if ls == nil || program == "" {
		return false
	}
	return ls.table.Read(time.Now(), path, program, uid, programs.Who{Self: self, Relatives: relatives})
}

// Wrote notes who has made a new version of a path, where reads count for so long.
func (ls *Lessons) Wrote(path string, who knowledge.Who, fade time.Duration) {
	if ls != nil && ls.table.Wrote(time.Now(), path, programs.Who{Self: who.Self, Relatives: who.Relatives}, fade) {
		go ls.Save()
	}
}

// Claimed notes that a read has claimed because of what was learned of the program; ""
// is a claim for another reason.
func (ls *Lessons) Claimed(program string) {
	if ls != nil && program != "" {
		ls.table.Claimed(program)
	}
}

// Ended notes whether something came of such a claim.
func (ls *Lessons) Ended(program string, used bool) {
	if ls != nil && program != "" && ls.table.Ended(program, used) {
		go ls.Save()
	}
}

// Moved notes that a directory has got another path, or that two have exchanged theirs.
func (ls *Lessons) Moved(from, to string, exchanged bool) {
	if ls != nil {
		ls.table.Moved(from, to, exchanged)
	}
}

// List is what is known of each program.
func (ls *Lessons) List() []programs.Program {
	if ls == nil {
		return nil
	}
	return ls.table.List()
}

// Show is .locks/programs, as a viewer sees it. A nil Sight sees everything.
func (ls *Lessons) Show(v report.Viewer, sight report.Sight) []byte {
	var b bytes.Buffer
	if ls == nil {
		b.WriteString("No path has lost-update = \"adaptive\": see policy.\n")
		return b.Bytes()
	}
	fmt.Fprintf(&b, "Which programs write back what they read (lost-update = \"adaptive\"). Their reads\n"+
		"claim the file, those of others do not; %d claims in vain in a row end that.\n\n", programs.Forgets)
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "CLAIMS\tREADS\tWRITTEN BACK\tCLAIMED\tIN VAIN\tPROGRAM\tWHY")
	for _, p := range ls.table.List() {
		claims := "no"
		if p.Claims {
			claims = "yes"
		}
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%s\t%s\n", claims, p.Reads, p.Written, p.Claimed, p.InVain, nameOf(&p, v), why(&p, sight))
	}
	_ = w.Flush() // into memory
	return b.Bytes()
}

// nameOf is what a viewer may see of a program: others' arguments are theirs.
func nameOf(p *programs.Program, v report.Viewer) string {
	name := p.Name
	if !v.Privileged && v.UID != p.UID {
		exe, _, _ := bytes.Cut([]byte(name), []byte(" "))
		name = path.Base(string(exe))
	}
	return printable.Line(name)
}

// why says why a program's reads claim, or why not.
func why(p *programs.Program, sight report.Sight) string {
	what := "a file"
	if sight == nil || sight.Sees(p.Path, p.UID) {
		what = printable.Line(p.Path)
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
