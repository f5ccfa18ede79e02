package judge

import (
	"slices"
	"strings"
	"testing"
)

// A command never runs as root, however the policy spells its user.
func TestCommandUserIsNeverRoot(t *testing.T) {
	for _, name := range []string{"root", "0", "00", "0000000000", "4294967295", "4294967296", "-0", "+0", " 0", "0x0", "no such user"} {
		if c, err := credentialOf(name); err == nil {
			t.Errorf("command-user %q is %+v", name, *c)
		}
	}
	for _, name := range []string{"nobody", "65534", "54321", "054321"} {
		if c, err := credentialOf(name); err != nil || c.UID == 0 || c.GID == 0 || slices.Contains(c.Groups, 0) {
			t.Errorf("command-user %q: %+v, %v", name, c, err)
		}
	}
}

// The users of a policy are found by its names for them, and the error of one that is not
// found says which that is.
func TestFindUsers(t *testing.T) {
	u, err := FindUsers([]string{"54321", "nobody"})
	if err != nil {
		t.Fatal(err)
	}
	if c, err := u.of("54321"); err != nil || c == nil || c.UID != 54321 {
		t.Errorf("a user of the policy: %+v, %v", c, err)
	}
	if c, err := u.of("54322"); err != errNoUser {
		t.Errorf("a user whom the policy does not name: %+v, %v", c, err)
	}
	if _, err := FindUsers([]string{"nobody", "0"}); err == nil || !strings.Contains(err.Error(), `command-user "0"`) {
		t.Errorf("root is found: %v", err)
	}
	if c, err := (&Users{}).of("nobody"); err != errNoUser {
		t.Errorf("of no users: %+v, %v", c, err)
	}
	if u := Ourselves(); true {
		if c, err := u.of("nobody"); c != nil || err != nil {
			t.Errorf("an ordinary user's mount: %+v, %v", c, err)
		}
	}
}
