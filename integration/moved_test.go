package integration

import (
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"latchfs/integration/internal/wire"
)

// What a name means can change while somebody waits for its lock.

// A create that waited is a create: O_EXCL succeeds if the name is free by then
// and fails if it is not, and nothing is left behind that a later open of the
// name could meet.
func TestExclusiveCreateWaits(t *testing.T) {
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		for _, taken := range []bool{true, false} {
			m.WriteFile("from", "moved")
			holder, renamer, creator := m.Client(t), m.Client(t), m.Client(t)
			fd := holder.Open("from", unix.O_RDWR)
			rename := renamer.Go(renamer.path2("rename", "from", "free"))
			rename.MustBlock(t)
			create := creator.GoOpen("free", unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL)
			create.MustBlock(t)
			if taken {
				holder.MustClose(fd)
				rename.OK()
				if _, err := create.Result(); err != syscall.EEXIST {
					t.Errorf("O_EXCL of a name that was taken meanwhile: %v", err)
				}
				creator.OK(wire.Request{Op: "unlink", Path: m.Path("free")})
			} else {
				renamer.Kill()
				made := int(create.OK().N)
				creator.Write(made, "mine")
				creator.MustClose(made)
				if got := m.ReadFile("free"); got != "mine" {
					t.Errorf("the file holds %q", got)
				}
				creator.OK(wire.Request{Op: "unlink", Path: m.Path("free")})
				holder.MustClose(fd)
			}
			if _, err := creator.TryOpen("free", unix.O_RDWR); err != syscall.ENOENT {
				t.Errorf("open of a file that is not there: %v", err)
			}
		}
	})
}

// A program that cannot create a file because another one is creating it, and then goes on with
// the name, waits for the creator: GNU tar removes the file and tries again, touch(1) sets its
// times. To programs that do not know of the file there is none.
func TestToldOfAnUncommittedFile(t *testing.T) {
	alongside(t)
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		const create = unix.O_WRONLY | unix.O_CREAT
		unlink := wire.Request{Op: "unlink", Path: m.Path("new")}
		touch := wire.Request{Op: "utimens", Path: m.Path("new"), Off: 1e18, Len: 1e18}
		for _, tries := range []struct {
			flags int
			want  syscall.Errno
			then  wire.Request
		}{{create | unix.O_EXCL, syscall.EEXIST, unlink}, {create | unix.O_NONBLOCK, syscall.EAGAIN, touch}} {
			for _, killed := range []bool{false, true} {
				creator, told, stranger := m.Client(t), m.Client(t), m.Client(t)
				fd := creator.Open("new", create)
				creator.Write(fd, "first")
				if _, err := told.TryOpen("new", tries.flags); err != tries.want {
					t.Fatalf("open beside a creator: %v, want %v", err, tries.want)
				}
				if _, err := told.Stat("new"); err != syscall.ENOENT {
					t.Errorf("stat of the unfinished file: %v, want ENOENT", err)
				}
				if _, err := stranger.Do(tries.then); err != syscall.ENOENT {
					t.Errorf("%s by a program that does not know of the file: %v, want ENOENT", tries.then.Op, err)
				}
				next := told.Go(tries.then)
				next.MustBlock(t)
				if killed {
					creator.Kill()
					if _, err := next.Result(); err != syscall.ENOENT {
						t.Errorf("%s of what has never come to be: %v, want ENOENT", tries.then.Op, err)
					}
					continue
				}
				creator.MustClose(fd)
				next.OK()
				st, err := told.Stat("new")
				if tries.then.Op == "unlink" && err != syscall.ENOENT {
					t.Errorf("the file is there after its removal: %v", err)
				} else if tries.then.Op == "utimens" && (err != nil || st.MtimeNs != 1e18 || m.ReadFile("new") != "first") {
					t.Errorf("after the touch: %v, mtime %d, %q", err, st.MtimeNs, m.ReadFile("new"))
				}
				stranger.Do(unlink)
			}
		}
	})
}

// Of several programs that were told of a file that another one is creating only the first may
// remove it: the next one would find it gone, or remove what the first has made.
func TestFirstToldMayRemove(t *testing.T) {
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		creator, first, second := m.Client(t), m.Client(t), m.Client(t)
		fd := creator.Open("new", unix.O_WRONLY|unix.O_CREAT)
		for _, c := range []*Client{first, second} {
			if _, err := c.TryOpen("new", unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL); err != syscall.EEXIST {
				t.Fatalf("O_EXCL beside a creator: %v, want EEXIST", err)
			}
		}
		unlink := wire.Request{Op: "unlink", Path: m.Path("new")}
		removal := first.Go(unlink)
		removal.MustBlock(t)
		if _, err := second.Do(unlink); err != syscall.ENOENT {
			t.Errorf("the second removal: %v, want ENOENT", err)
		}
		creator.MustClose(fd)
		removal.OK()
	})
}

// Who waits for a file that is renamed away does not become a second writer of
// it under its new name.
func TestWaiterOfARenamedFile(t *testing.T) {
	alongside(t)
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		for range repeat(2, 200) {
			m.WriteFile("from", "moved")
			m.WriteFile("to", "old")
			holder, renamer, late, writer := m.Client(t), m.Client(t), m.Client(t), m.Client(t)
			fd := holder.Open("to", unix.O_RDWR)
			rename := renamer.Go(renamer.path2("rename", "from", "to"))
			rename.MustBlock(t)
			first := late.GoOpen("from", unix.O_WRONLY|unix.O_TRUNC)
			first.MustBlock(t)
			second := writer.GoOpen("to", unix.O_WRONLY|unix.O_TRUNC)
			second.MustBlock(t)
			holder.MustClose(fd)
			rename.OK()
			opened := second.OK()
			if _, err := first.Result(); err != syscall.ENOENT {
				t.Fatalf("open of the old name: %v, want ENOENT", err)
			}
			writer.Write(int(opened.N), "whole")
			writer.MustClose(int(opened.N))
			if got := m.ReadFile("to"); got != "whole" {
				t.Fatalf("the file holds %q", got)
			}
			for _, c := range []*Client{holder, renamer, late, writer} {
				c.Quit()
			}
		}
	})
}

// A file with several names is written in place: its writer never loses it, by
// byte-range locks or another link made meanwhile.
func TestWrittenInPlaceUnderLocks(t *testing.T) {
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.WriteFile("a", "old")
		c := m.Client(t)
		c.OK(c.path2("link", "a", "b"))
		fd := c.Open("a", unix.O_RDWR)
		c.OK(fcntlReq("setlk", fd, unix.F_WRLCK, 0, 0))
		c.OK(wire.Request{Op: "pwrite", FD: fd, Data: []byte("one")})
		c.OK(c.path2("link", "a", "c"))
		c.OK(wire.Request{Op: "pwrite", FD: fd, Data: []byte("two")})
		c.MustClose(fd)
		for _, name := range []string{"a", "b", "c"} {
			st, err := m.control.Stat(name)
			if got := m.ReadFile(name); got != "two" || err != nil || st.Nlink != 3 {
				t.Errorf("%s holds %q, %d links %v", name, got, st.Nlink, err)
			}
		}
	})
}
