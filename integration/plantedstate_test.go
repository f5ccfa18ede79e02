package integration

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// Whoever owns a data directory that root mounts can put into it what he likes, a
// state directory included. Each test plays him as an ordinary user.

// strangersDirs is newDirs with a data directory that belongs to the ordinary user, who
// can reach it.
func strangersDirs(t *testing.T) (data, mnt string) {
	t.Helper()
	data, mnt = newDirs(t)
	home := filepath.Dir(data)
	for path, uid := range map[string]int{home: 0, data: ordinaryUID} {
		if err := os.Lchown(path, uid, uid); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(home, 0o755); err != nil {
		t.Fatal(err)
	}
	return data, mnt
}

// stranger runs a shell script in dir as the ordinary user.
func stranger(t *testing.T, dir, script string, argv ...string) {
	t.Helper()
	cmd := exec.Command("/bin/bash", append([]string{"-euc", script, "stranger"}, argv...)...)
	cmd.Dir = dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: ordinaryUID, Gid: ordinaryUID}}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", script, err, out)
	}
}

// forgedSegment is a journal with one unfinished commit in place: the shadow's content
// goes into the file name, which becomes root's and a setuid program.
func forgedSegment(t *testing.T, target, shadow string) []byte {
	t.Helper()
	var st unix.Statx_t
	if err := unix.Statx(unix.AT_FDCWD, target, 0, unix.STATX_BASIC_STATS|unix.STATX_BTIME, &st); err != nil {
		t.Fatal(err)
	}
	table := crc32.MakeTable(crc32.Castagnoli)
	seal := func(b []byte, from int) []byte {
		return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b[from:], table))
	}
	b := seal(binary.LittleEndian.AppendUint32([]byte("latchjnl"), 1), 0)
	for _, payload := range []string{
		`{"op":"start","next":5,"tokens":100}`,
		fmt.Sprintf(`{"op":"begin","id":5,"intent":{"kind":"inplace","dir":"","name":%q,"in_state":true,"shadow":%q,`+
			`"target_dev":%d,"target_ino":%d,"target_birth":%d,"mode":%d,"meta":true}}`, filepath.Base(target), shadow,
			unix.Mkdev(st.Dev_major, st.Dev_minor), st.Ino, st.Btime.Sec*1e9+int64(st.Btime.Nsec), 0o4755),
	} {
		from := len(b)
		b = binary.LittleEndian.AppendUint32(b, uint32(len(payload)))
		b = binary.LittleEndian.AppendUint64(b, 0)
		b = binary.LittleEndian.AppendUint32(b, crc32.Checksum([]byte(payload), table))
		b = append(seal(b, from), payload...)
	}
	return b
}

const forgedShadow = ".latchfs-0123456789abcdef0123456789abcdef"

// plantState makes a state directory of uid's with a forged journal about the file prog.
func plantState(t *testing.T, data string, uid int) {
	t.Helper()
	state, prog := filepath.Join(data, ".latchfs"), filepath.Join(data, "prog")
	for name, content := range map[string]string{prog: "harmless\n", filepath.Join(state, "daemon.lock"): "", filepath.Join(state, forgedShadow): "evil\n"} {
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(state, "journal-0000000000000001"), forgedSegment(t, prog, forgedShadow), 0o600); err != nil {
		t.Fatal(err)
	}
	owners := map[string]int{state: uid, prog: ordinaryUID}
	for _, name := range []string{"daemon.lock", forgedShadow, "journal-0000000000000001"} {
		owners[filepath.Join(state, name)] = uid
	}
	for path, uid := range owners {
		if err := os.Lchown(path, uid, uid); err != nil {
			t.Fatal(err)
		}
	}
}

// mustBeHarmless wants prog to be what the stranger made of it, and not root's.
func mustBeHarmless(t *testing.T, data string, contents ...string) {
	t.Helper()
	prog := filepath.Join(data, "prog")
	var st unix.Stat_t
	if err := unix.Lstat(prog, &st); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(prog)
	if err != nil {
		t.Fatal(err)
	}
	if st.Uid != ordinaryUID || st.Mode&0o7777 != 0o600 {
		t.Errorf("prog belongs to %d and has mode %04o", st.Uid, st.Mode&0o7777)
	}
	for _, want := range contents {
		if string(b) == want {
			return
		}
	}
	t.Errorf("prog holds %q", b)
}

// refusedMount wants a mount to be refused with a message that says everything in says.
func refusedMount(t *testing.T, data, mnt string, says ...string) {
	t.Helper()
	o := latchfs(t, "mount", data, mnt)
	if o.Code != 1 || isMounted(mnt) {
		t.Errorf("mounted: %+v", o)
	}
	for _, want := range says {
		if !strings.Contains(o.Stderr, want) {
			t.Errorf("the refusal %q does not say %q", o.Stderr, want)
		}
	}
}

// mountAndStop mounts and unmounts.
func mountAndStop(t *testing.T, data, mnt string) {
	t.Helper()
	if o := latchfs(t, "mount", data, mnt); o.Code != 0 {
		t.Fatalf("%+v", o)
	}
	if o := latchfs(t, "umount", mnt); o.Code != 0 {
		t.Fatalf("%+v", o)
	}
}

// A journal that the directory's owner has forged is not believed, by no mount and by
// no repair.
func TestPlantedJournal(t *testing.T) {
	inTest(t)
	data, mnt := strangersDirs(t)
	plantState(t, data, ordinaryUID)
	refusedMount(t, data, mnt, ".latchfs", fmt.Sprintf("belongs to user %d", ordinaryUID))
	mustBeHarmless(t, data, "harmless\n")
	// The repair goes on as that user, who may do to prog what the journal says.
	latchfs(t, "fsck", "--repair", data)
	mustBeHarmless(t, data, "harmless\n", "evil\n")
}

// A FIFO in a planted state directory keeps nobody waiting, and neither does one in
// the place of the lock.
func TestPlantedFIFO(t *testing.T) {
	inTest(t)
	for _, name := range []string{"journal-0000000000000001", "daemon.lock", "events.jsonl", "knowledge.json"} {
		data, mnt := strangersDirs(t)
		stranger(t, data, `mkdir -m 700 .latchfs; touch .latchfs/daemon.lock; rm -f .latchfs/"$1"; mkfifo .latchfs/"$1"`, name)
		refusedMount(t, data, mnt, ".latchfs")
		if o := latchfs(t, "fsck", data); o.Code < 0 {
			t.Errorf("fsck with a FIFO %s: %+v", name, o)
		}
		if o := latchfs(t, "fsck", "--repair", data); o.Code < 0 {
			t.Errorf("fsck --repair with a FIFO %s: %+v", name, o)
		}
		// The same in a directory of root's, as a former version might have left it.
		if err := os.Chown(filepath.Join(data, ".latchfs"), 0, 0); err != nil {
			t.Fatal(err)
		}
		refusedMount(t, data, mnt, "not latchfs's own")
	}
}

// A state directory that is a link leads nowhere, and nothing outside changes its mode.
func TestPlantedLink(t *testing.T) {
	inTest(t)
	data, mnt := strangersDirs(t)
	outside := filepath.Join(filepath.Dir(data), "outside")
	if err := os.Mkdir(outside, 0o755); err != nil {
		t.Fatal(err)
	}
	stranger(t, data, `ln -s "$1" .latchfs`, outside)
	refusedMount(t, data, mnt, ".latchfs")
	latchfs(t, "fsck", "--repair", data)
	st, err := os.Stat(outside)
	if err != nil || st.Mode().Perm() != 0o755 {
		t.Errorf("the directory outside has mode %v, %v", st.Mode(), err)
	}
	if list, err := os.ReadDir(outside); err != nil || len(list) > 0 {
		t.Errorf("in the directory outside are %v, %v", list, err)
	}
}

// A repair by root leaves what a link in a user's state directory leads to.
func TestRepairFollowsNoLink(t *testing.T) {
	inTest(t)
	data, _ := strangersDirs(t)
	outside := filepath.Join(filepath.Dir(data), "outside")
	victim := filepath.Join(outside, "meta.json")
	if err := os.Mkdir(outside, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{victim, filepath.Join(outside, "content")} {
		if err := os.WriteFile(name, []byte("{}"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	stranger(t, data, `mkdir -m 700 .latchfs .latchfs/rejected; touch .latchfs/daemon.lock; ln -s "$1" .latchfs/rejected/x`, outside)
	latchfs(t, "fsck", "--repair", data)
	var st unix.Stat_t
	if err := unix.Lstat(victim, &st); err != nil || st.Uid != 0 {
		t.Errorf("the file outside belongs to %d, %v", st.Uid, err)
	}
	err := filepath.WalkDir(filepath.Join(data, ".latchfs"), func(path string, _ os.DirEntry, err error) error {
		var st unix.Stat_t
		if err == nil {
			err = unix.Lstat(path, &st)
		}
		if st.Uid != ordinaryUID {
			t.Errorf("%s belongs to %d, and its user cannot mount any more", path, st.Uid)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// A state directory of root's own, put back by the directory's owner, is told from the
// last one.
func TestStatePutBack(t *testing.T) {
	inTest(t)
	data, mnt := strangersDirs(t)
	mountAndStop(t, data, mnt)
	stranger(t, data, "mv .latchfs first")
	mountAndStop(t, data, mnt) // says that it is gone, and begins a new one
	stranger(t, data, "mv .latchfs second; mv first .latchfs")
	refusedMount(t, data, mnt, "not the state directory that was last used here", "--trust-state")
	if o := latchfs(t, "fsck", "--repair", data); o.Code != 1 || !strings.Contains(o.Stderr, "latchfs fsck --repair --trust-state "+data) {
		t.Errorf("%+v", o)
	}
	stranger(t, data, "mv .latchfs first; mv second .latchfs")
	mountAndStop(t, data, mnt)
	stranger(t, data, "mv .latchfs second; mv first .latchfs")
	if o := latchfs(t, "fsck", "--repair", "--trust-state", data); o.Code != 0 {
		t.Errorf("%+v", o)
	}
	mountAndStop(t, data, mnt)
}

// Where somebody else owns the data directory, unfinished changes in a state directory
// that nothing vouches for are finished only if root says so, and give no rights even
// then.
func TestUnprovenState(t *testing.T) {
	inTest(t)
	data, mnt := strangersDirs(t)
	plantState(t, data, 0)
	refusedMount(t, data, mnt, "1 unfinished changes", "--trust-state")
	if o := latchfs(t, "fsck", "--repair", data); o.Code != 1 || !strings.Contains(o.Stderr, "latchfs fsck --repair --trust-state "+data) {
		t.Errorf("%+v", o)
	}
	mustBeHarmless(t, data, "harmless\n")
	if o := latchfs(t, "fsck", "--repair", "--trust-state", data); o.Code != 0 {
		t.Errorf("%+v", o)
	}
	mustBeHarmless(t, data, "evil\n") // finished, but for the mode
	mountAndStop(t, data, mnt)
}

// In a directory of root's own the journal is believed, and recovery gives no rights
// either.
func TestRecoveryGivesNoRights(t *testing.T) {
	inTest(t)
	data, mnt := strangersDirs(t)
	if err := os.Chown(data, 0, 0); err != nil {
		t.Fatal(err)
	}
	plantState(t, data, 0)
	mountAndStop(t, data, mnt)
	mustBeHarmless(t, data, "evil\n")
}

// Root's daemon over a service user's directory recovers from a crash as anywhere.
func TestServiceUsersDirectoryRecovers(t *testing.T) {
	m := mount(t)
	m.Stop(t)
	if err := os.Chown(m.Data, ordinaryUID, ordinaryUID); err != nil {
		t.Fatal(err)
	}
	m.Start(t)
	m.WriteFile("f", "old")
	c := m.Client(t)
	c.Write(c.Open("f", os.O_WRONLY|os.O_TRUNC), "half")
	m.Crash(t)
	m.Start(t)
	if got := m.ReadFile("f"); got != "old" {
		t.Errorf("after the crash it holds %q", got)
	}
}

// Root follows no link of a user's to a data directory or a mount point.
func TestLinkToTheData(t *testing.T) {
	inTest(t)
	data, mnt := strangersDirs(t)
	stranger(t, data, `ln -s "$1" link`, filepath.Dir(data))
	for _, args := range [][]string{{data + "/link/data", mnt}, {filepath.Dir(mnt), data + "/link/mnt"}} {
		o := latchfs(t, append([]string{"mount"}, args...)...)
		if o.Code != 1 || !strings.Contains(o.Stderr, "symbolic link of user") {
			t.Errorf("%q: %+v", args, o)
		}
	}
}

// Who gives the directory away while it is mounted, or lets others write to it, has no less
// recovered after a crash.
func TestRootThatIsGivenAway(t *testing.T) {
	needsRoot(t)
	needsLatchfs(t)
	for _, give := range []string{"chown 65533 .", "chgrp 65533 .; chmod 2775 .", "chmod 777 .", "setfacl -m u:65533:rwx ."} {
		t.Run(give, func(t *testing.T) {
			m := mount(t)
			m.WriteFile("f", "old")
			m.Bash(t, give)
			p := m.LaunchPython(t, `
import os
f = open("f", "w"); f.write("synced"); f.flush(); os.fsync(f.fileno()); print("synced", flush=True); input()`)
			p.AwaitLine("synced")
			m.Crash(t)
			p.Kill()
			p.Wait()
			m.Start(t)
			if kept := m.latchfs(t, 0, "rejected", "list", "f"); !strings.Contains(kept, "6") {
				t.Errorf("kept is %q", kept)
			}
		})
	}
}
