package fs

import (
	"errors"
	"strings"
	"testing"

	"latchfs/lockmgr/policy"
)

// A policy with such a user keeps latchfs from mounting, and the error names it.
func TestCommandUserRefusesTheMount(t *testing.T) {
	p, err := policy.Parse("test", []byte("[[rule]]\nglob = [\"**\"]\ncommand = [\"/bin/true\"]\ncommand-user = \"4294967295\"\n"))
	if err != nil {
		t.Fatal(err)
	}
	f := newFS(Options{Policy: p})
	if err := f.judging.findCommandUsers(); !errors.Is(err, ErrBadOption) || !strings.Contains(err.Error(), "command-user") {
		t.Errorf("the mount is refused by %v", err)
	}
}
