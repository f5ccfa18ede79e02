package versions

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/journal/history"
)

// What somebody has put to a path outside the mount is a version before it is replaced.
func TestStepDiscovers(t *testing.T) {
	s := newStage(t)
	s.save("f", "one")
	check(t, os.Remove(s.path("f")))
	s.write("f", "from outside")
	s.save("f", "three")
	s.want("f", "1 commit of 0", "2 found of 0: from outside", "3 commit of 2")
	if !slices.Equal(s.bypassed, []string{"f 12"}) {
		t.Errorf("it is told of the changes of %q", s.bypassed)
	}
	v := s.h.Of("f")[1]
	if v.Rights.Mode != 0o640 || v.Rights.ACL || v.UID != uint32(os.Getuid()) || v.PID != 0 || v.Time.IsZero() {
		t.Errorf("found was %+v", v)
	}
}

func TestNobodysFault(t *testing.T) {
	s := newStage(t)
	s.write("f", "from before the history")
	s.Inspect(s.name("f"))
	s.want("f", "1 found of 0")
	s.write("f", "of two names")
	check(t, os.Link(s.path("f"), s.path("g")))
	s.Inspect(s.name("f"))
	check(t, os.Remove(s.path("g")))
	s.c.Since = time.Now().Add(time.Hour)
	s.write("f", "from before the mount")
	s.Inspect(s.name("f"))
	s.want("f", "1 found of 0", "2 found of 0", "3 found of 0")
	if len(s.bypassed) > 0 {
		t.Errorf("somebody is told to have changed %q", s.bypassed)
	}
}

func TestInspect(t *testing.T) {
	s := newStage(t)
	s.save("f", "one")
	s.Inspect(s.name("f"))
	s.Inspect(s.name("nothing"))
	check(t, os.Mkdir(s.path("d"), 0o700))
	s.Inspect(s.name("d"))
	var none *Recorder
	none.Inspect(s.name("f"))
	s.want("f", "1 commit of 0")
	s.want("nothing")
	s.want("d")
	s.write("f", "other")
	s.Inspect(s.name("f"))
	s.want("f", "1 commit of 0", "2 found of 0")
}

func TestIsOther(t *testing.T) {
	s := newStage(t)
	s.save("f", "one")
	is := history.StateOf(s.stat("f"))
	longer, another := is, is
	longer.Size++
	another.Ino++
	other := func() [4]bool {
		return [4]bool{s.IsOther("f", is), s.IsOther("f", longer), s.IsOther("f", another), s.IsOther("unknown", is)}
	}
	if got := other(); got != [4]bool{false, true, true, false} {
		t.Errorf("%v", got)
	}
	s.Is("f", s.stat("f"), true)
	if got := other(); got != [4]bool{false, false, true, false} {
		t.Errorf("while it grows: %v", got)
	}
	s.remove("f", 5)
	if got := other(); got != [4]bool{} {
		t.Errorf("after its removal: %v", got)
	}
	var none *Recorder
	if none.IsOther("f", longer) {
		t.Error("a mount without a history knows a file")
	}
}

// A crash may take the record of what has replaced a file that is in the history already.
func TestSettleDangling(t *testing.T) {
	for name, c := range map[string]struct {
		leave func(s *stage, content string)
		want  []string
	}{
		"the name is gone": {func(s *stage, content string) {
			check(s.t, os.Rename(s.path("d/f"), content))
		}, []string{"1 commit of 0: one", "2 delete of 1"}},
		"its directory is gone": {func(s *stage, content string) {
			check(s.t, os.Rename(s.path("d/f"), content))
			check(s.t, os.Remove(s.path("d")))
		}, []string{"1 commit of 0: one", "2 delete of 1"}},
		"another file has it": {func(s *stage, content string) {
			check(s.t, os.Rename(s.path("d/f"), content))
			s.write("d/f", "two")
		}, []string{"1 commit of 0: one", "2 found of 0"}},
		"a directory has it": {func(s *stage, content string) {
			check(s.t, os.Rename(s.path("d/f"), content))
			check(s.t, os.Mkdir(s.path("d/f"), 0o700))
		}, []string{"1 commit of 0"}},
		"the file was changed": {func(s *stage, content string) {
			check(s.t, os.WriteFile(content, []byte("one"), 0o600))
			s.write("d/f", "longer")
		}, []string{"1 commit of 0: one", "2 found of 0"}},
		"the file is as it was": {func(s *stage, content string) {
			check(s.t, os.WriteFile(content, []byte("one"), 0o600))
		}, []string{"1 commit of 0"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t)
			check(t, os.Mkdir(s.path("d"), 0o700))
			s.write("d/f", "one")
			id := s.h.Add(history.Version{Path: "d/f", Event: history.Commit, State: history.StateOf(s.stat("d/f"))}).Content
			content := filepath.Join(s.path(".latchfs"), history.ContentPath(id))
			check(t, os.MkdirAll(filepath.Dir(content), 0o700))
			c.leave(s, content)
			check(t, s.Close())
			s.open()
			s.SettleDangling()
			s.want("d/f", c.want...)
			check(t, s.Close()) // what was dropped is gone from the disk
			defer s.open()
			if _, err := os.Lstat(content); name == "the file is as it was" && !os.IsNotExist(err) {
				t.Errorf("what is not the content of a version is kept: %v", err)
			}
			if len(s.bypassed) > 0 {
				t.Errorf("somebody is told to have changed %q", s.bypassed)
			}
		})
	}
}

func TestRights(t *testing.T) {
	s := newStage(t)
	st := s.write("f", "one")
	want := history.Rights{UID: st.Uid, GID: st.Gid, Mode: 0o640}
	if got := RightsAt(int(s.dir.Fd()), "f"); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	want.ACL = true // nobody can tell
	if got := RightsOf(st, -1); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got := RightsAt(int(s.dir.Fd()), "nothing"); got != (history.Rights{ACL: true}) {
		t.Errorf("of nothing: %+v", got)
	}
	check(t, os.Chmod(s.path("f"), 0o755|os.ModeSetuid))
	if got := RightsAt(int(s.dir.Fd()), "f"); got.Mode != 0o4755 {
		t.Errorf("of a program: %o", got.Mode)
	}
	// A list of one entry for user 7 (acl(5)), as the kernel has it.
	acl := "\x02\x00\x00\x00\x01\x00\x06\x00\xff\xff\xff\xff\x02\x00\x04\x00\x07\x00\x00\x00\x04\x00\x04\x00\xff\xff\xff\xff" +
		"\x10\x00\x04\x00\xff\xff\xff\xff\x20\x00\x00\x00\xff\xff\xff\xff"
	if err := unix.Setxattr(s.path("f"), "system.posix_acl_access", []byte(acl), 0); err != nil {
		t.Logf("no access control lists here: %v", err)
	} else if !RightsAt(int(s.dir.Fd()), "f").ACL {
		t.Error("an access control list is not seen")
	}
}

func TestBaseName(t *testing.T) {
	for path, want := range map[string]string{"f": "f", "d/f": "f", "d/e/f": "f", "": ""} {
		if got := baseName(path); got != want {
			t.Errorf("%q: %q", path, got)
		}
	}
}
