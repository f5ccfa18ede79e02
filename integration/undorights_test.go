package integration

import "testing"

// A directory that had an ACL is there again without it: then its group has no more rights than
// the ACL gave it, though the bits of its mode were those of the mask.
func TestUndoOfADirectoryWithAnACL(t *testing.T) {
	needsLatchfs(t)
	requireTool(t, "setfacl")
	forEachMount(t, func(t *testing.T, m *Mount) {
		got := m.Bash(t, `
mkdir -m 700 none; setfacl -m u:65533:rwx none
mkdir -m 770 some; setfacl -m u:65533:rwx,m::rx some
mkdir -m 2750 plain
for d in none some plain; do echo secret > $d/key; done
LATCHFS_ACTOR=agent bash -c 'rm -r none some plain'
"$1" undo --actor agent --since 1h > /dev/null; stat -c '%n %a' none some plain; cat */key`, bench.binary)
		mustSee(t, "after the undo", got.Stdout+got.Stderr, "none 700\nsome 750\nplain 2750\nsecret\nsecret\nsecret\n")
	})
}
