package proc

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/lockmgr"
)

// following is a reader that follows forks.
func following(t testing.TB) *Reader {
	t.Helper()
	r := newReader(t)
	if err := r.FollowForks(); err != nil {
		t.Skip("the kernel does not tell of forks: ", err)
	}
	return r
}

// orphaned starts a script that does not lead its process group, whose job's parents
// have ended, and returns the script and the job. prefix is a command that runs the job.
func orphaned(t *testing.T, r *Reader, prefix string) (script, orphan lockmgr.Owner) {
	t.Helper()
	cmd := exec.Command("bash", "-c", `exec 3<&0; bash -c "$SCRIPT"; :`)
	cmd.Env = append(os.Environ(), "PREFIX="+prefix,
		`SCRIPT=sh -c "$BETWEEN"; echo script $$; cat <&3; :`,
		`BETWEEN=sh -c "$LAST" & wait; echo between $$; exit 0`,
		`LAST=$PREFIX sh -c "$JOB" & exit 0`,
		`JOB=echo job $$; cat <&3; :`)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	in, out := startPiped(t, cmd)
	t.Cleanup(func() { in.Close(); cmd.Wait() })
	pids := map[string]int32{}
	for lines := bufio.NewScanner(out); len(pids) < 3 && lines.Scan(); {
		var what string
		var pid int32
		if _, err := fmt.Sscan(lines.Text(), &what, &pid); err != nil {
			t.Fatal(err)
		}
		pids[what] = pid
	}
	for r.exists(pids["between"]) {
		time.Sleep(time.Millisecond)
	}
	return r.mustOwner(t, pids["script"]), r.mustOwner(t, pids["job"])
}

func (r *Reader) exists(pid int32) bool {
	_, err := r.stat(pid)
	return err == nil
}

// Who has started an orphan is known, however many parents have ended between the two,
// and whatever group and session it is in.
func TestForksOfOrphans(t *testing.T) {
	for what, prefix := range map[string]string{"group": "", "session": "setsid"} {
		t.Run(what, func(t *testing.T) {
			r := following(t)
			script, orphan := orphaned(t, r, prefix)
			pids := append([]int32{orphan.PID}, r.Descendants(orphan.PID)...)
			for _, pid := range pids {
				f := r.Family(r.mustOwner(t, pid))
				if !slices.Contains(f.Above, script) || slices.Contains(f.Relatives, script) {
					t.Errorf("the family of %d is %+v, want %v above", pid, f, script)
				}
			}
			again := r.Family(r.mustOwner(t, pids[0]))
			r.families = familyCache{}
			r.forget()
			for i, pid := range pids {
				o := r.mustOwner(t, pid)
				r.Family(r.mustOwner(t, pids[max(i-1, 0)]))
				mustThread(t, r, uint32(pid))
				if k := r.adopt(o); k != nil && !slices.Contains(k.family.Above, script) {
					t.Errorf("below a known parent the family of %d is %+v", pid, k.family)
				}
			}
			if !slices.Contains(again.Above, script) {
				t.Errorf("asked again the family is %+v", again)
			}
		})
	}
}

// Where the kernel does not tell, an orphan keeps the ancestors that were seen while its
// parent lived.
func TestOrphanKeepsWhatWasSeen(t *testing.T) {
	r := newReader(t)
	cmd := exec.Command("bash", "-c", `exec 3<&0; sh -c 'setsid sh -c "echo \$\$; cat <&3; :" & cat <&3; :'; cat <&3; :`)
	in, out := startPiped(t, cmd)
	t.Cleanup(func() { in.Close(); cmd.Wait() })
	var pid int32
	if _, err := fmt.Fscan(out, &pid); err != nil {
		t.Fatal(err)
	}
	script, orphan := r.mustOwner(t, int32(cmd.Process.Pid)), r.mustOwner(t, pid)
	before := r.Family(orphan)
	if !slices.Contains(before.Relatives, script) {
		t.Fatalf("the family is %+v, want %v among the relatives", before, script)
	}
	between := before.Relatives[0].PID
	unix.Kill(int(between), unix.SIGKILL)
	for r.exists(between) {
		time.Sleep(time.Millisecond)
	}
	old := *r.families.slot(orphan).Load()
	old.seen -= familyFor
	r.families.put(&old)
	r.age()
	if f := r.Family(orphan); !slices.Contains(f.Above, script) || slices.Contains(f.Relatives, script) {
		t.Errorf("of the orphan it is %+v, want %v above", f, script)
	}
}

// Workers of one script are no ancestors of each other's orphans.
func TestForksKeepWorkersApart(t *testing.T) {
	r := following(t)
	script, orphan := orphaned(t, r, "")
	other, _ := orphaned(t, r, "")
	if f := r.Family(orphan); !slices.Contains(f.Above, script) || slices.Contains(f.Above, other) {
		t.Errorf("the family is %+v, want %v and not %v above", f, script, other)
	}
}
