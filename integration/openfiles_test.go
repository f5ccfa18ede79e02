package integration

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// A user who opens files and never closes them keeps nobody else from opening one, and is
// told why he gets no more himself. When he has closed them he may go on.
func TestOpenFilesOfOneUserLeaveDescriptors(t *testing.T) {
	inTest(t)
	const descriptors = 400
	data, mnt := newDirs(t)
	must(t, os.Chmod(filepath.Dir(data), 0o755))
	must(t, fillStrangers(data))
	for i := range descriptors {
		must(t, os.WriteFile(filepath.Join(data, fmt.Sprintf("bob/f%d", i)), nil, 0o666))
		must(t, os.Chown(filepath.Join(data, fmt.Sprintf("bob/f%d", i)), otherUID, otherUID))
	}
	mountWithDescriptors(t, descriptors, data, mnt)
	const script = `
import os, sys, time
mnt, bob, alice, most, what = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]), sys.argv[5]
opens = {
    'read':    lambda i: os.open('f%d' % i, os.O_RDONLY),
    'written': lambda i: os.open('f%d' % i, os.O_WRONLY),
    'made':    lambda i: os.open('new%d' % i, os.O_WRONLY | os.O_CREAT),
    'listed':  lambda i: os.open('.', os.O_RDONLY),
}
def hold():
    os.chdir(mnt + '/bob')
    held = []
    try:
        for i in range(most): held.append(opens[what](i))
        said = 'nothing was refused'
    except OSError as e:
        said = e.strerror
    why = open(mnt + '/.locks/why')
    if 'as many files open here as one user may have' not in why.read(): said += ', and why does not say so'
    why.close()
    os.write(full[1], said.encode())
    os.read(go[0], 1)
    for fd in held: os.close(fd)
    for i in range(200): # RELEASE comes a moment after close
        try: return os.close(opens['read'](1))
        except OSError: time.sleep(0.05)
    sys.exit('nothing can be opened any more')
def save():
    os.chdir(mnt + '/alice')
    with open('f', 'w') as f: f.write('new')
def start(uid, do):
    pid = os.fork()
    if pid == 0:
        os.setgroups([]); os.setgid(uid); os.setuid(uid)
        do()
        os._exit(0)
    return pid
full, go = os.pipe(), os.pipe()
holder = start(bob, hold)
os.close(full[1])
print(os.read(full[0], 200).decode())
print('alice', os.waitpid(start(alice, save), 0)[1])
os.write(go[1], b'x')
print('bob', os.waitpid(holder, 0)[1])
`
	for _, what := range []string{"read", "written", "made", "listed"} {
		o := finish(t, exec.Command(bench.python, "-c", script, mnt, fmt.Sprint(otherUID), fmt.Sprint(ordinaryUID), fmt.Sprint(descriptors), what))
		if want := "Too many open files in system\nalice 0\nbob 0\n"; o.Code != 0 || o.Stdout != want {
			t.Errorf("%s: %+v", what, o)
		}
	}
	if o := latchfs(t, "umount", mnt); o.Code != 0 {
		t.Errorf("%+v", o)
	}
}

// A daemon with few descriptors writes many files: each is appended to and written anew by a
// shell, which closes the file first under the number that it has opened it with. None is empty
// afterwards, and nothing is refused.
func TestFewDescriptors(t *testing.T) {
	inTest(t)
	const files = 500
	data, mnt := newDirs(t)
	for i := range files {
		must(t, os.WriteFile(filepath.Join(data, fmt.Sprintf("f%d", i)), []byte("old\n"), 0o644))
	}
	mountWithDescriptors(t, 256, data, mnt)
	script := exec.Command("bash", "-c", `cd "$1" && for ((i = 0; i < $2; i++)); do echo more >>f$i || exit; done
		for ((i = 0; i < $2; i++)); do [ "$(<f$i)" = "old"$'\n'"more" ] || exit; echo new >f$i || exit; done`, "bash", mnt, fmt.Sprint(files))
	if o := finish(t, script); o.Code != 0 || o.Stderr != "" {
		t.Errorf("%+v", o)
	}
	if o := latchfs(t, "umount", mnt); o.Code != 0 {
		t.Errorf("%+v", o)
	}
	for i := range files {
		if got, err := os.ReadFile(filepath.Join(data, fmt.Sprintf("f%d", i))); err != nil || string(got) != "new\n" {
			t.Errorf("f%d holds %q, %v", i, got, err)
		}
	}
}

// mountWithDescriptors starts a daemon that may have so many descriptors.
func mountWithDescriptors(t *testing.T, n int, data, mnt string) {
	t.Helper()
	start := exec.Command("bash", "-c", fmt.Sprintf(`ulimit -n %d; "$1" mount "$2" "$3"`, n), "bash", bench.binary, data, mnt)
	if o := finish(t, start); o.Code != 0 {
		t.Fatalf("%+v", o)
	}
}

// A daemon that has fewer descriptors than a directory has names lists it all the same, also when
// they have just been made: the kernel gets the attributes of some with the listing, and asks
// for those of the others.
func TestListingWithFewDescriptors(t *testing.T) {
	inTest(t)
	const files = 200
	data, mnt := newDirs(t)
	mountWithDescriptors(t, 64, data, mnt)
	fill := exec.Command("bash", "-c", `cd "$1" && for ((i = 0; i < $2; i++)); do echo $i >f$i || exit; done`, "bash", mnt, fmt.Sprint(files))
	if o := finish(t, fill); o.Code != 0 || o.Stderr != "" {
		t.Errorf("%+v", o)
	}
	for _, list := range []string{"ls", "ls -l", "find -type f -size +0"} {
		o := finish(t, exec.Command("bash", "-c", `cd "$1" && timeout -s KILL 60 `+list+` | grep -c "f[0-9]"`, "bash", mnt))
		if want := fmt.Sprintln(files); o.Stdout != want || o.Stderr != "" {
			t.Errorf("%s: %+v", list, o)
		}
	}
	if o := latchfs(t, "umount", mnt); o.Code != 0 {
		t.Errorf("%+v", o)
	}
}
