package disclosure

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"latchfs/fs/reach"
	"latchfs/journal/history"
)

// reachOf notes who can reach names below these directories.
func (s *stage) reachOf(dirs ...string) []history.Gate {
	s.t.Helper()
	var fds []int
	for _, dir := range dirs {
		fds = append(fds, s.open(dir))
	}
	r := ReachOf(slices.Values(fds))
	if !r.Known {
		s.t.Errorf("below %q who can reach them is not known", dirs)
	}
	return r.Gates
}

// A directory that not everybody may search is a gate; those that are alike are one.
func TestReachOf(t *testing.T) {
	s := newStage(t, map[string]os.FileMode{
		"open/": 0o755, "searched/": 0o711, "group/": 0o750, "alike/": 0o710, "own/": 0o700, "drop/": 0o733, "shut/": 0o666, "bits/": 0o777 | os.ModeSticky,
	})
	gate := func(mode uint32) history.Gate { return history.Gate{UID: uid, GID: gid, Mode: mode} }
	for _, c := range []struct {
		dirs []string
		want []history.Gate
	}{
		{nil, nil},
		{[]string{""}, nil},
		{[]string{"open", "searched", "drop", "bits"}, nil},
		{[]string{"group"}, []history.Gate{gate(0o110)}},
		{[]string{"group", "open", "alike"}, []history.Gate{gate(0o110)}},
		{[]string{"own", "group", "own", "alike", ""}, []history.Gate{gate(0o100), gate(0o110)}},
		{[]string{"shut"}, []history.Gate{gate(0)}},
	} {
		if got := s.reachOf(c.dirs...); !slices.Equal(got, c.want) {
			t.Errorf("below %q: %v, want %v", c.dirs, got, c.want)
		}
	}
	if r := ReachOf(slices.Values([]int{-1})); !r.Known || !slices.Equal(r.Gates, []history.Gate{shut}) {
		t.Errorf("below what cannot be looked at: %v", r)
	}
}

// Below more gates than are noted nobody but the owner comes.
func TestManyGates(t *testing.T) {
	modes := map[string]os.FileMode{}
	var dirs []string
	for i := range maxGates + 2 {
		// Of these eight bits those to read and write do not count.
		mode := []os.FileMode{0o000, 0o100, 0o010, 0o001, 0o110, 0o101, 0o011, 0o700}[i%8]
		dir := fmt.Sprint("d", i)
		modes[dir+"/"], dirs = mode, append(dirs, dir)
	}
	s := newStage(t, modes)
	if got := s.reachOf(dirs...); len(got) != 7 {
		t.Errorf("%d gates of seven kinds", len(got))
	}
	if os.Geteuid() != 0 {
		t.Skip("directories of several users need root")
	}
	for i, dir := range dirs {
		s.must(os.Chown(filepath.Join(s.dir, dir), i+1, i+1))
	}
	if got := s.reachOf(dirs[:maxGates]...); len(got) != maxGates {
		t.Errorf("%d gates, want %d", len(got), maxGates)
	}
	if got := s.reachOf(dirs[:maxGates+1]...); !slices.Equal(got, []history.Gate{shut}) {
		t.Errorf("below one gate more: %v", got)
	}
	looked := 0
	ReachOf(func(yield func(int) bool) {
		for _, dir := range dirs {
			if looked++; !yield(s.open(dir)) {
				return
			}
		}
	})
	if looked != maxGates+1 {
		t.Errorf("%d directories were looked at", looked)
	}
}

// A directory with an ACL only its owner passes, whoever may search it by the ACL.
func TestGateWithACL(t *testing.T) {
	s := newStage(t, map[string]os.FileMode{"d/": 0o755})
	acl := binary.LittleEndian.AppendUint32(nil, 2) // version
	for _, e := range [][3]uint32{{0x01, 7, nobody}, {0x02, 7, stranger.UID}, {0x04, 5, nobody}, {0x10, 7, nobody}, {0x20, 5, nobody}} {
		acl = binary.LittleEndian.AppendUint16(acl, uint16(e[0]))
		acl = binary.LittleEndian.AppendUint16(acl, uint16(e[1]))
		acl = binary.LittleEndian.AppendUint32(acl, e[2])
	}
	if err := unix.Setxattr(filepath.Join(s.dir, "d"), reach.ACLAttr, acl, 0); errors.Is(err, unix.EOPNOTSUPP) {
		t.Skip("the filesystem has no ACLs")
	} else if err != nil {
		t.Fatal(err)
	}
	want := history.Gate{UID: uid, GID: nobody, Mode: 0o100}
	if got := s.reachOf("d"); !slices.Equal(got, []history.Gate{want}) {
		t.Errorf("the gate is %v, want %v", got, want)
	}
}
