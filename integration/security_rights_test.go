package integration

import (
	"fmt"
	"os"
	"testing"
)

// Three ordinary users make random calls in directories of many kinds of rights: each
// is answered as in a plain directory, and leaves the same owners, modes, ACLs, names
// and content.
func TestRightsAtRandom(t *testing.T) {
	script, err := os.ReadFile("testdata/rights.py")
	if err != nil {
		t.Fatal(err)
	}
	forBothRootMounts(t, func(t *testing.T, m *Mount) {
		out := m.LaunchPython(t, string(script), plainTwin(t, m), m.Dir, fmt.Sprint(repeat(700, 5000)), fmt.Sprint(drawnSeed())).Wait()
		if out.Code != 0 {
			t.Errorf("%s%s", out.Stdout, out.Stderr)
		}
		t.Log(out.Stderr)
	}, func(*testing.T) []mountOption { return []mountOption{careless()} })
}

// Who is not in a directory's group loses its setgid bit with an ACL for the directory
// itself, and not with one for what is made in it.
func TestDefaultACLKeepsSetgid(t *testing.T) {
	forBothRootMounts(t, func(t *testing.T, m *Mount) {
		out := m.Python(t, `
import os, struct, sys
acl = struct.pack("<I", 2) + b"".join(struct.pack("<HHi", tag, 7, -1) for tag in (1, 4, 32))
def modes(root):
    for kind in ("default", "access"):
        os.mkdir(f"{root}/{kind}")
        os.chown(f"{root}/{kind}", bob, 61500)
        os.chmod(f"{root}/{kind}", 0o2777)
    pid = os.fork()
    if pid == 0:
        os.setgroups([]); os.setresgid(bob, bob, bob); os.setresuid(bob, bob, bob)
        for kind in ("default", "access"):
            os.setxattr(f"{root}/{kind}", f"system.posix_acl_{kind}", acl)
        os._exit(0)
    if os.waitpid(pid, 0)[1] != 0:
        sys.exit("an ACL was not set")
    return [oct(os.stat(f"{root}/{kind}").st_mode) for kind in ("default", "access")]
bob = int(sys.argv[3])
print(modes(sys.argv[1]), modes(sys.argv[2]))
`, m.Path("bob"), plainTwin(t, m), fmt.Sprint(bobUID))
		if want := "['0o42777', '0o40777'] ['0o42777', '0o40777']\n"; out != want {
			t.Errorf("modes of the directories after a default and an access ACL, in the mount and without it: %s", out)
		}
	}, nil)
}
