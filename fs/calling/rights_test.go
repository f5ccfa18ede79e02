package calling

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

func pid() int32 { return int32(os.Getpid()) }

func TestGroups(t *testing.T) {
	s := onStage(t, &process{pid: 7, groups: []uint32{5, 6}})
	c := s.room.Caller(sender(7))
	s.asked = nil
	if !c.InGroup(100) {
		t.Error("its own group is none of its groups")
	}
	s.wantAsked()
	if !c.InGroup(6) || c.InGroup(7) {
		t.Error("its other groups are not those that it has")
	}
	c.HaveGroups([]uint32{7}, true)
	if groups, known := c.Groups(); !slices.Equal(groups, []uint32{5, 6}) || !known {
		t.Errorf("groups that came too late: %v, %v", groups, known)
	}
	u := c.User()
	if u.UID != 1000 || !slices.Equal(u.GIDs, []uint32{100, 5, 6}) || !u.All {
		t.Errorf("as a user: %+v", u)
	}
	given := s.room.Caller(sender(7))
	given.HaveGroups([]uint32{9}, false)
	if u := given.User(); !slices.Equal(u.GIDs, []uint32{100, 9}) || u.All {
		t.Errorf("with groups that it was given: %+v", u)
	}
	s.asked = nil
	root := s.room.Caller(Sender{TID: 7})
	if u := root.User(); u.UID != 0 || len(u.GIDs) > 0 {
		t.Errorf("root: %+v", u)
	}
	s.wantAsked("thread 7")
}

// Whose groups a sender's are is seen without making it a caller.
func TestMembership(t *testing.T) {
	s := onStage(t, &process{pid: 7, groups: []uint32{5}})
	is := s.room.Membership(sender(7))
	if !is(100) {
		t.Error("its own group is none of its groups")
	}
	s.wantAsked()
	if !is(5) || is(6) {
		t.Error("its other groups are not those that it has")
	}
	s.wantAsked("groups 7", "groups 7")
	if s.room.Membership(Sender{TID: 7})(5) || s.room.Membership(Sender{UID: 1000})(5) {
		t.Error("root, or who cannot be seen, has groups")
	}
	s.wantAsked()
}

func TestHasCap(t *testing.T) {
	s := onStage(t, &process{pid: 7, caps: []int{unix.CAP_FSETID}})
	c := s.room.Caller(sender(7))
	if !c.HasCap(unix.CAP_FSETID) || c.HasCap(unix.CAP_FOWNER) {
		t.Error("its capabilities are not those that it has")
	}
}

// An ordinary user's daemon does everything as itself.
func TestAsWithoutPrivileges(t *testing.T) {
	s := onStage(t, &process{pid: 7})
	failed := errors.New("failed")
	c := s.room.Caller(sender(7))
	for _, as := range []func(func() error) error{c.As, c.AsOwn} {
		uid := -1
		err := as(func() error { uid = fsuid(); return failed })
		if uid != os.Geteuid() || err != failed {
			t.Errorf("as user %d, with the error %v", uid, err)
		}
	}
}

// Root's daemon acts as the caller; what only owners of files may do it does as itself if the
// caller's capabilities let that do it.
func TestAs(t *testing.T) {
	s := privileged(t, &process{pid: 7}, &process{pid: 8, caps: []int{unix.CAP_FOWNER}})
	var as []int
	do := func() error { as = append(as, fsuid()); return unix.EPERM }
	for _, x := range []struct {
		name string
		run  func(func() error) error
		want []int
	}{
		{"as an ordinary caller", s.room.Caller(sender(7)).As, []int{1000}},
		{"as the owner", s.room.Caller(sender(7)).AsOwn, []int{1000}},
		{"as one that owns all", s.room.Caller(sender(8)).AsOwn, []int{1000, 0}},
		{"as root", s.room.Caller(Sender{TID: 7}).AsOwn, []int{0}},
	} {
		as = nil
		if err := x.run(do); err != unix.EPERM || !slices.Equal(as, x.want) {
			t.Errorf("%s: as users %v, with the error %v", x.name, as, err)
		}
	}
	as = nil
	if err := s.room.Caller(sender(8)).AsOwn(func() error { as = append(as, fsuid()); return unix.EACCES }); err != unix.EACCES || len(as) != 1 {
		t.Errorf("what was refused otherwise was tried as users %v", as)
	}
}

// The kernel says what a caller may open; the mode of the file does where the daemon cannot ask
// it as somebody else.
func TestMayOpen(t *testing.T) {
	s := onStage(t, &process{pid: 7}, &process{pid: 8, groups: []uint32{5}}, &process{pid: 9, caps: []int{unix.CAP_DAC_OVERRIDE}})
	plain := s.room
	rooms := map[string]*Room{"by its mode": plain}
	if os.Geteuid() == 0 {
		rooms["by the kernel"] = New(Config{Procs: s, Engine: s, Running: &s.running, Serial: plain.c.Serial, Privileged: true})
	}
	path := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	// Reading is for all, writing for the group.
	if os.Geteuid() == 0 && os.Chown(path, 0, 5) != nil || os.Chmod(path, 0o464) != nil {
		t.Skip("the file cannot have this mode")
	}
	fd, err := unix.Open(path, unix.O_PATH, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	for how, room := range rooms {
		for _, x := range []struct {
			from  Sender
			flags uint32
			want  bool
		}{
			{sender(7), unix.O_RDONLY, true},
			{sender(7), unix.O_WRONLY, false},
			{sender(7), unix.O_RDWR, false},
			{sender(7), unix.O_RDONLY | unix.O_TRUNC, false},
			{sender(8), unix.O_WRONLY, os.Geteuid() == 0},
			{Sender{TID: 7}, unix.O_RDWR, true},
			{Sender{TID: 7, UID: uint32(os.Geteuid())}, unix.O_RDWR, true},
			{sender(9), unix.O_WRONLY, how == "by the kernel"},
		} {
			if got := room.Caller(x.from).MayOpen(fd, x.flags); got != x.want {
				t.Errorf("%s: %+v may open with %#o: %v", how, x.from, x.flags, got)
			}
		}
	}
	for _, room := range rooms { // root needs no groups, and nobody is asked
		s.asked = nil
		room.Caller(Sender{TID: 7}).MayOpen(fd, unix.O_RDWR)
		s.wantAsked("thread 7")
	}
	if err := os.Chmod(path, 0o462); err != nil {
		t.Fatal(err)
	}
	for how, room := range rooms {
		if c := room.Caller(sender(7)); c.MayOpen(fd, unix.O_RDONLY) || !c.MayOpen(fd, unix.O_WRONLY) {
			t.Errorf("%s: of a file that may only be written: reading %v, writing %v", how, c.MayOpen(fd, unix.O_RDONLY), c.MayOpen(fd, unix.O_WRONLY))
		}
	}
}

// privileged is a stage whose daemon is root's.
func privileged(t *testing.T, all ...*process) *stage {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	s := onStage(t, all...)
	s.room.c.Privileged = true
	return s
}

// fsuid is as whom this thread uses files.
func fsuid() int {
	id, err := unix.SetfsuidRetUid(-1)
	if err != nil {
		return -1
	}
	return id
}
