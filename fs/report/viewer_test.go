package report

import "testing"

// The rights are those of access(2), and of a viewer whose groups are not all known what
// the group may not nobody may.
func TestMay(t *testing.T) {
	owner, other := Viewer{UID: 1000, AllGroups: true}, Viewer{UID: 2000, AllGroups: true}
	member, vague := Viewer{UID: 2000, GIDs: []uint32{7, 50}}, Viewer{UID: 2000}
	for _, x := range []struct {
		who  string
		v    Viewer
		mode uint32
		want bool
	}{
		{"root", Viewer{Privileged: true}, 0, true},
		{"the owner", owner, 0o400, true},
		{"the owner", owner, 0o044, false},
		{"a member of the group", member, 0o040, true},
		{"a member of the group", member, 0o404, false},
		{"somebody else", other, 0o004, true},
		{"somebody else", other, 0o440, false},
		{"who may be in the group", vague, 0o044, true},
		{"who may be in the group", vague, 0o004, false},
	} {
		if got := x.v.May(RightRead, 1000, 50, x.mode); got != x.want {
			t.Errorf("%s reads a file of mode %o: %v", x.who, x.mode, got)
		}
	}
	if owner.May(RightSearch, 1000, 50, 0o600) || !owner.May(RightSearch, 1000, 50, 0o100) {
		t.Error("the owner needs the right to search")
	}
}

// Viewers with the same rights share what is rendered; with others they do not.
func TestCredentials(t *testing.T) {
	same := []Viewer{{UID: 1, GIDs: []uint32{2, 1}, PID: 1}, {UID: 1, GIDs: []uint32{1, 2}, PID: 2}}
	if same[0].Credentials() != same[1].Credentials() {
		t.Error("the order of groups tells viewers apart, or the process does")
	}
	seen := map[string]bool{}
	for _, v := range []Viewer{{UID: 1}, {UID: 2}, {UID: 1, GIDs: []uint32{1}}, {UID: 1, AllGroups: true}, {UID: 1, Privileged: true}} {
		if seen[v.Credentials()] {
			t.Errorf("%+v sees what another does", v)
		}
		seen[v.Credentials()] = true
	}
}
