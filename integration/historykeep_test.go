package integration

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// When the disk is full earlier versions give way to what is written now, the
// oldest first.
func TestHistoryGivesWay(t *testing.T) {
	inTestAll(t)
	needsLatchfs(t)
	if os.Geteuid() != 0 {
		t.Skip("needs root, for a small filesystem")
	}
	for _, kind := range []string{"ext4", "xfs"} {
		t.Run(kind, func(t *testing.T) {
			requireTool(t, "mkfs."+kind)
			image := filepath.Join(t.TempDir(), "image")
			mib := map[string]int64{"ext4": 48, "xfs": 320}[kind]
			var m *Mount
			t.Cleanup(func() { unix.Unmount(m.Data, unix.MNT_DETACH) }) // after the mount's own end
			m = mount(t, withSeed(func(data string) error {
				f, err := os.Create(image)
				if err == nil {
					err = errors.Join(f.Truncate(mib<<20), f.Close())
				}
				if err == nil {
					err = exec.Command("mkfs."+kind, "-q", image).Run()
				}
				if err == nil {
					err = exec.Command("mount", "-o", "loop", image, data).Run()
				}
				return err
			}), withPolicy("[defaults]\nhistory = 1000\ndurability = \"ordered\"\n"))
			c := m.Client(t)
			const rounds = 65
			size := int(mib<<20) / 50
			for i := range rounds {
				content := fmt.Sprintf("%07d\n", i) + strings.Repeat("x", size)
				if err := c.Save("f", content); err != nil {
					t.Fatalf("save %d of %d: %v", i, rounds, err)
				}
			}
			kept := 0
			for _, v := range m.Versions("f") {
				if v.Kept {
					kept++
				} else if kept > 0 && !v.Current {
					t.Errorf("version %d is not kept, and an earlier one is", v.Version)
				}
			}
			t.Logf("%d of %d versions are kept", kept, rounds)
			if kept < 3 || kept >= rounds-1 {
				t.Errorf("%d of %d versions are kept", kept, rounds)
			}
			last := m.Locks(fmt.Sprintf("history/f/%d", rounds-1))
			if !strings.HasPrefix(last, fmt.Sprintf("%07d\n", rounds-2)) || len(last) != size+8 {
				t.Errorf("the last but one version begins %.20q and has %d bytes", last, len(last))
			}
		})
	}
}

// Somebody still writes a version after its commit, through a descriptor that was
// passed on: what is kept of it does not change.
func TestHistoryOfLateWriter(t *testing.T) {
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		p := m.LaunchPython(t, `
import array, errno, os, socket, sys
# a process outside of the writer's family gets the descriptor
a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
pid = os.fork()
if pid == 0:
    a.close()
    if os.fork() > 0: os._exit(0)
    os.setsid()
    msg, anc, _, _ = b.recvmsg(10, socket.CMSG_SPACE(4))
    fd = array.array('i', anc[0][2])[0]
    b.send(b'got'); b.recv(10)
    def refused(call, *args):
        try: call(*args)
        except OSError as e:
            assert e.errno == errno.ESTALE, e
            return True
    # What it writes would be nowhere that anybody looks. Where the kernel writes by
    # itself that is found at the next call.
    if not refused(os.pwrite, fd, b'LATE', 0):
        assert refused(os.fsync, fd) and refused(os.close, fd)
    b.send(b'done'); os._exit(0)
b.close(); os.waitpid(pid, 0)
fd = os.open('f', os.O_WRONLY|os.O_CREAT|os.O_TRUNC)
os.write(fd, b'first')
socket.send_fds(a, [b'x'], [fd])
a.recv(10); os.close(fd)
print('committed', flush=True); sys.stdin.readline()
a.send(b'go'); assert a.recv(20) == b'done'
print('written', flush=True); sys.stdin.readline()
`)
		p.AwaitLine("committed")
		eventually(t, "the commit", func() bool { _, err := m.control.Stat("f"); return err == nil })
		if err := m.control.Save("f", "second"); err != nil {
			t.Fatal(err)
		}
		kept := m.past("f")
		p.Send("")
		p.AwaitLine("written")
		if got := m.past("f"); got != kept || strings.Contains(got, "LATE") {
			t.Errorf("the versions were\n%sand are\n%s", kept, got)
		}
		if got := m.ReadFile("f"); got != "second" {
			t.Errorf("the file is %q", got)
		}
		p.Send("")
	})
}

// The directory of a file may be gone when it turns out that somebody has the file open
// after its commit.
func TestLateWriterWhoseDirectoryIsGone(t *testing.T) {
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		p := m.LaunchPython(t, `
import array, os, socket, sys
a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
pid = os.fork()
if pid == 0:
    a.close()
    if os.fork() > 0: os._exit(0)
    os.setsid()
    while b.recvmsg(1, socket.CMSG_SPACE(4))[0]: pass # it keeps what it is given to the end
    os._exit(0)
b.close(); os.waitpid(pid, 0)
for file, to in ('d/f', 'g'), ('e/d/f', None), ('./h', './h'):
    os.makedirs(os.path.dirname(file), exist_ok=True)
    fd = os.open(file, os.O_WRONLY|os.O_CREAT)
    os.write(fd, b'content')
    socket.send_fds(a, [b'x'], [fd])
    os.close(fd)
    if to: os.rename(file, to)
    else: os.unlink(file)
    if file != to: os.rmdir(os.path.dirname(file))
print('gone', flush=True); sys.stdin.readline()
`)
		p.AwaitLine("gone")
		// That of the file whose directory stays is the last.
		eventually(t, "the looks after the commits", func() bool {
			return len(m.EventsOf("late", "h")) > 0
		})
		if got := m.ReadFile("g"); got != "content" {
			t.Errorf("the file is %q", got)
		}
		p.Send("")
	})
}

// latchfs is killed at random moments: what is kept is whole, versions count on,
// and nobody is accused of having changed a file around the mount.
func TestHistoryAfterKills(t *testing.T) {
	inStress(t)
	alongside(t)
	needsLatchfs(t)
	m := mount(t, withPolicy("[defaults]\nhistory = 20\ndurability = \"ordered\"\n"))
	whole := regexp.MustCompile(`^[0-9]{8}\n$`)
	moment := drawn(t)
	found := 0
	m.WriteFile("f", "00000000\n")
	m.WriteFile("g", "00000000\n")
	for round := range repeat(10, 200) {
		p := m.LaunchBash(t, `for i in $(seq 10000000 10009999); do
			echo $i > f; echo $i > t && mv t g; ln -f g h; echo $i > h; rm h; done`)
		time.Sleep(time.Duration(20+moment.IntN(200)) * time.Millisecond) // makes the moment random
		m.Crash(t)
		p.Kill()
		m.Start(t)
		for _, name := range []string{"f", "g"} {
			last, file := 0, m.ReadFile(name)
			for _, v := range m.Versions(name) {
				if v.Version <= last {
					t.Errorf("round %d: version %d of %s comes after %d", round, v.Version, name, last)
				}
				last = v.Version
				if v.Event == "found" {
					found++
				}
				if !v.Kept {
					continue
				}
				if got := m.Locks(fmt.Sprintf("history/%s/%d", name, v.Version)); !whole.MatchString(got) || int64(len(got)) != v.Bytes {
					t.Errorf("round %d: version %d of %s is %q, has %d bytes", round, v.Version, name, got, v.Bytes)
				}
			}
			if !whole.MatchString(file) || last == 0 {
				t.Errorf("round %d: %s is %q, and has %d versions", round, name, file, last)
			}
		}
		if t.Failed() {
			return
		}
	}
	t.Logf("%d states were found", found)
	for _, e := range m.Events() {
		if e.Event == "bypass" {
			t.Errorf("bypass of %s: %s", e.Path, e.Reason)
		}
	}
}

// A large version is kept as the inode that it is, although the RELEASE of the
// one who made it may come late.
func TestHistoryOfLargeFiles(t *testing.T) {
	needsLatchfs(t)
	m := mount(t)
	m.mustBash(t, `for i in 1 2 3 4; do head -c 20000000 /dev/zero > f; done`)
	kept := 0
	for _, v := range m.Versions("f") {
		if v.Kept {
			kept++
		}
	}
	if kept != 3 {
		t.Errorf("%d versions are kept:\n%+v", kept, m.Versions("f"))
	}
}

// All earlier versions together have a bound.
func TestHistoryIsBounded(t *testing.T) {
	needsLatchfs(t)
	m := mount(t, withPolicy("[history]\nmax-bytes = \"100KiB\"\n"))
	m.mustBash(t, `for i in $(seq 20); do for f in a b c; do head -c 10000 /dev/zero > $f; done; done
		head -c 200000 /dev/zero > large; rm large`)
	var size int64
	eventually(t, "old contents are removed", func() bool {
		size = 0
		for _, path := range m.contents() {
			if st, err := os.Stat(path); err == nil {
				size += st.Sys().(*syscall.Stat_t).Blocks * 512
			}
		}
		return size <= 100<<10
	})
	if size < 60<<10 {
		t.Errorf("only %d bytes are kept", size)
	}
	for _, v := range m.Versions("large") {
		if v.Kept {
			t.Errorf("a version is kept that is larger than all may be: %+v", v)
		}
	}
}
