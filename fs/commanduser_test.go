package fs

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"latchfs/lockmgr/policy"
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

// A policy with such a user keeps latchfs from mounting, and the error names it.
func TestCommandUserRefusesTheMount(t *testing.T) {
	p, err := policy.Parse("test", []byte("[[rule]]\nglob = [\"**\"]\ncommand = [\"/bin/true\"]\ncommand-user = \"4294967295\"\n"))
	if err != nil {
		t.Fatal(err)
	}
	f := &FS{privileged: true, opts: Options{Policy: p}}
	if err := f.findCommandUsers(); !errors.Is(err, ErrBadOption) || !strings.Contains(err.Error(), "command-user") {
		t.Errorf("the mount is refused by %v", err)
	}
}
