package proc

import (
	"os"
	"os/exec"
	"reflect"
	"slices"
	"syscall"
	"testing"

	"latchfs/lockmgr"
)

// nested starts shells, one in the other, of which the last waits for its input to
// end, and returns the pids from the outermost to the innermost.
func nested(t *testing.T, r *Reader, script string, depth int) []int32 {
	t.Helper()
	cmd := exec.Command("/bin/bash", "-c", script)
	in, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdin = in
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { out.Close(); cmd.Wait(); in.Close() })
	for {
		if down := r.Descendants(int32(cmd.Process.Pid)); len(down) >= depth {
			return append([]int32{int32(cmd.Process.Pid)}, down...)
		}
	}
}

func (r *Reader) mustOwner(t *testing.T, pid int32) lockmgr.Owner {
	t.Helper()
	return mustThread(t, r, uint32(pid)).Owner
}

func (r *Reader) isPrompt(t *testing.T, pid int32) bool {
	t.Helper()
	return r.Family(r.mustOwner(t, pid)).Interactive
}

func TestFamily(t *testing.T) {
	r := newReader(t)
	pids := nested(t, r, `bash -c 'bash -c "bash -c \"cat; :\"; :"; :'; :`, 4)
	last := r.mustOwner(t, pids[4])
	got := r.Family(last)
	var want []lockmgr.Owner
	for _, pid := range []int32{pids[3], pids[2], pids[1]} {
		want = append(want, r.mustOwner(t, pid))
	}
	if !slices.Equal(got.Relatives, want) || got.Interactive || got.Shell != (lockmgr.Owner{}) {
		t.Errorf("the family is %+v, want the nearest three %v", got, want)
	}
	if len(got.Above) == 0 || got.Above[0] != r.mustOwner(t, pids[0]) {
		t.Errorf("above them are %v, want %v first", got.Above, pids[0])
	}
	if again := r.Family(last); !slices.Equal(again.Relatives, want) {
		t.Errorf("asked again it is %+v", again)
	}
	newReader(t).checkAdopted(t, pids...)
	if f := r.Family(lockmgr.Owner{}); len(f.Relatives) != 0 {
		t.Errorf("a stranger has relatives: %+v", f)
	}
}

// What is known of a parent leads to the same family as the way up.
func (r *Reader) checkAdopted(t *testing.T, pids ...int32) {
	t.Helper()
	for i, pid := range pids {
		o := r.mustOwner(t, pid)
		want := newReader(t).Family(o)
		r.Family(r.mustOwner(t, pids[max(i-1, 0)])) // knows the parent
		mustThread(t, r, uint32(pid))
		k := r.adopt(o)
		if i > 0 && k == nil && (len(want.Relatives) > 0 || want.Shell != lockmgr.Owner{}) { // see leaders
			t.Fatalf("%d is not adopted", pid)
		}
		if k != nil && !reflect.DeepEqual(k.family, want) {
			t.Errorf("the family of %d below a known parent is %+v, want %+v", pid, k.family, want)
		}
	}
}

// A launcher's children have nothing to do with each other.
func TestFamilyBelowLauncher(t *testing.T) {
	r := newReader(t)
	pids := nested(t, r, `printf cron > /proc/$$/comm; bash -c 'bash -c "cat; :"; :'; :`, 3)
	got := r.Family(r.mustOwner(t, pids[3])).Relatives
	want := []lockmgr.Owner{r.mustOwner(t, pids[2]), r.mustOwner(t, pids[1])}
	if !slices.Equal(got, want) {
		t.Errorf("relatives %v, want those below cron, %v", got, want)
	}
	newReader(t).checkAdopted(t, pids...)
}

// What an interactive shell starts is not related through it.
func TestFamilyBelowPrompt(t *testing.T) {
	r := newReader(t)
	term := onTerminal(t, "/bin/bash", "--norc", "--noprofile")
	term.await("ready>")
	shell := r.mustOwner(t, term.pid())
	if f := r.Family(shell); !f.Interactive {
		t.Errorf("the family of a shell at its prompt: %+v", f)
	}
	term.ptmx.WriteString("(cat; true)\n")
	sub := r.mustOwner(t, awaitChild(t, r, term.pid()))
	if f := r.Family(sub); len(f.Relatives) != 0 || f.Shell != shell || f.Interactive {
		t.Errorf("the family of what was started at a prompt: %+v, want the shell %v alone", f, shell)
	}
	cat := r.mustOwner(t, r.Descendants(sub.PID)[0])
	if f := r.Family(cat); !slices.Equal(f.Relatives, []lockmgr.Owner{sub}) || f.Shell != shell {
		t.Errorf("the family below it: %+v", f)
	}
	newReader(t).checkAdopted(t, shell.PID, sub.PID, cat.PID)
}

// Far below it the shell is out of sight.
func TestFamilyFarBelowPrompt(t *testing.T) {
	r := newReader(t)
	term := onTerminal(t, "/bin/bash", "--norc", "--noprofile")
	term.await("ready>")
	term.ptmx.WriteString(`(sh -c 'sh -c "cat; :"; :'; true)` + "\n")
	sub := awaitChild(t, r, term.pid())
	below := r.Descendants(sub)
	for len(below) < 3 {
		below = r.Descendants(sub)
	}
	pids := append([]int32{term.pid(), sub}, below...)
	r.checkAdopted(t, pids...)
	if f := r.Family(r.mustOwner(t, pids[4])); len(f.Relatives) != 3 || len(f.Above) != 0 || f.Shell != (lockmgr.Owner{}) {
		t.Errorf("the family of the last is %+v", f)
	}
}

// A background job of a script whose parent has ended is still the script's work.
func TestFamilyOfAnOrphan(t *testing.T) {
	r := newReader(t)
	cmd := exec.Command("bash", "-c", `exec 3<&0; sh -c "sh -c 'cat <&3; :' & exit 0"; cat; :`)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { in.Close(); cmd.Wait() })
	script := r.mustOwner(t, int32(cmd.Process.Pid))
	var orphan lockmgr.Owner
	for orphan == (lockmgr.Owner{}) {
		for _, o := range r.All() {
			st, err := r.stat(o.PID)
			if err != nil || st.PGrp != script.PID || o == script || len(r.Descendants(o.PID)) != 1 {
				continue
			}
			if up, err := r.stat(st.PPID); err == nil && up.PGrp != script.PID {
				orphan = o
			}
		}
	}
	r = newReader(t) // that believes nothing of what was before
	for _, pid := range append([]int32{orphan.PID}, r.Descendants(orphan.PID)...) {
		f := r.Family(r.mustOwner(t, pid))
		if len(f.Above) == 0 || f.Above[0] != script || slices.Contains(f.Relatives, script) {
			t.Errorf("the family of %d is %+v, want %v above", pid, f, script)
		}
	}
	newReader(t).checkAdopted(t, append([]int32{orphan.PID}, r.Descendants(orphan.PID)...)...)
}
