package integration

import (
	"strings"
	"testing"
)

// The kernel lets nobody into a user's own mount but that user. Whoever asks about all
// mounts does not mean it; whoever names it is told.
func TestListLeavesOutAnothersOwnMount(t *testing.T) {
	needsRoot(t)
	requireTool(t, "fusermount3")
	const script = `
unshare -m --propagation private bash -c '
cd /
latchfs=$1 roots=$2 own=$3
awk "\$0 ~ / - fuse.latchfs / {print \$5}" /proc/self/mountinfo | while read -r dir; do
	[ "$dir" = "$roots" ] || [ "$dir" = "$own" ] || umount -l "$dir"
done
ask() { out=$("$latchfs" "$@" 2>&1); echo "$1 $? $(grep -c "^$roots:\|^{" <<<"$out") $(grep -o "permission denied\|no latchfs mount" <<<"$out")"; }
ask list; ask list --json; ask status; ask status --json
ask list "$roots"; ask list "$own"; ask status "$own"
umount -l "$roots"
ask list; ask status
' bash "$@"
`
	own, m := mount(t, asUser()), mount(t)
	want := `list 0 0
list 0 1
status 0 1
status 0 1
list 0 0
list 1 0 permission denied
status 1 0 permission denied
list 1 0 no latchfs mount
status 1 0 no latchfs mount
`
	o := m.Run(t, "bash", "-c", script, "bash", bench.binary, m.Dir, own.Dir)
	if got := strings.ReplaceAll(o.Stdout, " \n", "\n"); got != want {
		t.Errorf("%s%s\nwant\n%s", got, o.Stderr, want)
	}
}
