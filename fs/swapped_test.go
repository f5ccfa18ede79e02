package fs

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/fs/appends"
	"latchfs/fs/deaths"
	"latchfs/fs/merging"
	"latchfs/lockmgr/knowledge"
)

// Whoever can reach a directory outside the mount, too, may give a name in it to another
// file at any time: also between the look at a name and its use. The daemon may read and
// write everything, so it must not do that to the file that has got the name.

// swap gives the name f to another file, of the same size and time, which is root's alone
// where the test is root's. It returns that file, and what f was.
func (r *requests) swap(content string) (other string, was unix.Stat_t) {
	r.t.Helper()
	name := filepath.Join(r.data, "f")
	if err := unix.Lstat(name, &was); err != nil {
		r.t.Fatal(err)
	}
	other = filepath.Join(r.data, "other")
	if err := os.WriteFile(other, []byte(content), 0o600); err != nil {
		r.t.Fatal(err)
	}
	at := time.Unix(was.Mtim.Unix())
	if err := os.Chtimes(other, at, at); err != nil {
		r.t.Fatal(err)
	}
	if err := unix.Renameat2(unix.AT_FDCWD, other, unix.AT_FDCWD, name, unix.RENAME_EXCHANGE); err != nil {
		r.t.Fatal(err)
	}
	return name, was
}

func (r *requests) name() place { return place{dir: r.f.kernel.inodeOf(rootID), name: "f"} }

// read lets the reader of the file be known.
func (r *requests) read() {
	r.t.Helper()
	id := r.lookup("f")
	fh, st := r.open(id, unix.O_RDONLY)
	if st != 0 {
		r.t.Fatal(st)
	}
	r.close(id, fh)
}

const merges = "[defaults]\nlost-update = \"merge\"\n"

// What is kept to merge with is the version that was read, or nothing.
func TestBaseOfASwappedName(t *testing.T) {
	for _, swapped := range []bool{false, true} {
		r, _ := unmounted(t, merges)
		r.replace("known")
		r.read()
		var st unix.Stat_t
		if err := unix.Lstat(filepath.Join(r.data, "f"), &st); err != nil {
			t.Fatal(err)
		}
		number, stamp := r.f.rules.knowledge.Current("f")
		if number == 0 || stamp != stampOfFile(&st) {
			t.Fatalf("the known version is %d, %v", number, stamp)
		}
		if swapped {
			r.swap("SECRE")
		}
		r.f.judging.holdBase(r.name(), &st)(true)
		got, ok := r.f.recorder.bases.Content("f", &knowledge.Basis{Version: number, Stamp: stamp, At: time.Now()})
		if ok == swapped || !swapped && string(got) != "known" {
			t.Errorf("swapped %v: the base is %q, %v", swapped, got, ok)
		}
	}
}

// What is merged is the version that was looked at, and so is its beginning.
func TestVersionOfASwappedName(t *testing.T) {
	r, _ := unmounted(t, merges)
	r.replace("known")
	var st unix.Stat_t
	if err := unix.Lstat(filepath.Join(r.data, "f"), &st); err != nil {
		t.Fatal(err)
	}
	if got, err := r.f.judging.mergeFile(r.name(), &st).Read(); err != nil || string(got) != "known" {
		t.Errorf("the version is %q, %v", got, err)
	}
	if got, ok := r.f.judging.mergeFile(r.name(), &st).Beginning(3); !ok || string(got) != "kno" {
		t.Errorf("its beginning is %q, %v", got, ok)
	}
	_, was := r.swap("SECRE")
	if got, err := r.f.judging.mergeFile(r.name(), &was).Read(); err != unix.EBUSY {
		t.Errorf("of a swapped name: %q, %v", got, err)
	}
	if got, ok := r.f.judging.mergeFile(r.name(), &was).Beginning(3); ok {
		t.Errorf("the beginning of a swapped name: %q", got)
	}
}

// What is merged at a rename is written to the temporary file that was looked at.
func TestMergeIntoASwappedName(t *testing.T) {
	r, _ := unmounted(t, merges)
	r.replace("known")
	other, was := r.swap("SECRE")
	h := r.header(rootID)
	mv := &renaming{entries: r.f.entries, c: r.f.callers.callerOf(&h), from: r.name(), fromSt: &was}
	if _, err := merging.Rewrite(mergingRename{mv, "g"}, r.f.judging.mergeFile(mv.from, mv.fromSt), []byte("merged"), "g"); err != unix.EBUSY {
		t.Errorf("it is rewritten: %v", err)
	}
	if b, err := os.ReadFile(other); err != nil || string(b) != "SECRE" {
		t.Errorf("the other file holds %q, %v", b, err)
	}
}

// bob may write what everybody may write, and nothing else.
const bob = 62001

// appender opens the file to append to it, as bob, where the test is root's, and writes a
// line.
func (r *requests) appender() (a *appender, write func(text string)) {
	r.t.Helper()
	if os.Geteuid() != 0 {
		r.t.Skip("takes root, who may write what its user may not")
	}
	if err := os.Chmod(r.data, 0o755); err != nil {
		r.t.Fatal(err)
	}
	if err := os.Chown(filepath.Join(r.data, "f"), bob, bob); err != nil {
		r.t.Fatal(err)
	}
	id := r.lookup("f")
	h := r.header(id)
	h.UID, h.GID = bob, bob
	var out Opened
	if st := r.f.opens.Open(nil, &OpenRequest{Request: h, Flags: unix.O_WRONLY | unix.O_APPEND}, &out); st != 0 {
		r.t.Fatal(st)
	}
	write = func(text string) {
		r.t.Helper()
		in := WriteRequest{Request: h, Handle: out.Handle, Flags: unix.O_APPEND}
		if _, st := r.f.contents.Write(nil, &in, [][]byte{[]byte(text)}); st != 0 {
			r.t.Fatalf("write of %q: %v", text, st)
		}
	}
	write("one\n")
	r.t.Cleanup(func() { r.close(id, out.Handle) })
	return r.f.handles.handleOf(out.Handle).app, write
}

// Records go to the file that took the place of the appender's own only if its opener may
// write that.
func TestRecordsGoToNoForeignFile(t *testing.T) {
	r, _ := unmounted(t, "")
	r.replace("")
	_, write := r.appender()
	other, _ := r.swap("SECRE")
	if err := os.Remove(filepath.Join(r.data, "other")); err != nil { // that is the file itself by now
		t.Fatal(err)
	}
	write("two\n")
	if b, err := os.ReadFile(other); err != nil || string(b) != "SECRE" {
		t.Errorf("the other file holds %q, %v", b, err)
	}
	// If he may, they do: so a log goes on after a careful save of it.
	if err := os.Chmod(other, 0o666); err != nil {
		t.Fatal(err)
	}
	write("three\n")
	if b, err := os.ReadFile(other); err != nil || string(b) != "SECREthree\n" {
		t.Errorf("a successor holds %q, %v", b, err)
	}
}

// Who may append is judged by the file that is open, whatever its name has led to a
// moment before.
func TestSuccessorIsJudgedByItsDescriptor(t *testing.T) {
	r, _ := unmounted(t, "")
	r.replace("")
	a, _ := r.appender()
	other, st := r.swap("SECRE")
	own := st
	fd, err := unix.Open(other, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if a.IsReplaced() {
		t.Error("the appender goes on in another file, which has not taken the place of its own")
	}
	if a.MayOpen(fd) {
		t.Error("its opener may open the file behind a descriptor that is root's")
	}
	if !a.Stat(&st) || st.Ino != own.Ino {
		t.Errorf("the file to append to is %d now, and the appender's own is %d", st.Ino, own.Ino)
	}
}

// A record that its writer cannot finish is taken out of the file that it was written to.
func TestRecordIsTakenOutOfNoOtherFile(t *testing.T) {
	for _, swapped := range []bool{false, true} {
		r, _ := unmounted(t, "")
		r.replace("")
		a, write := r.appender()
		write("half")
		a.Show(appends.Late)
		id := r.lookup("f")
		fh, st := r.open(id, unix.O_WRONLY|unix.O_APPEND)
		if st != 0 {
			t.Fatal(st)
		}
		r.write(id, fh, 8, "two\n")
		want := map[string]string{"f": "one\ntwo\n"}
		if swapped {
			r.swap("SECRE")
			want = map[string]string{"f": "SECRE", "other": "one\nhalftwo\n"}
		}
		a.DropUnfinished(&deaths.Death{Owner: a.Owner(), Signal: unix.SIGKILL}, int32(r.tid))
		for name, content := range want {
			if b, err := os.ReadFile(filepath.Join(r.data, name)); err != nil || string(b) != content {
				t.Errorf("swapped %v: %s holds %q, %v", swapped, name, b, err)
			}
		}
		r.close(id, fh)
	}
}
