#!/bin/bash
# ltp.sh LATCHFS LTP: runs the flock and fcntl tests of the Linux Test Project,
# built in LTP, over a mount and over a plain directory, and prints how each ends.
# It exits with 1 when one ends differently.
set -euo pipefail
[ $# = 2 ] || { sed -n '2,4s/^# //p' "$0" >&2; exit 2; }
latchfs=$(realpath "$1") tests=$(realpath "$2")/testcases/kernel/syscalls
export LTP_COLORIZE_OUTPUT=n
export PATH="$tests/flock:$tests/fcntl:$PATH"

# fcntl32 wants a reader's write lease (F_SETLEASE) to be refused because somebody
# has the file open for writing. A writer has an inode of its own here until its
# close, so the kernel finds the reader alone.
differs=fcntl32

top=$(mktemp -d "${TMPDIR:-/tmp}/latchfs-ltp.XXXXXX")
cleanup() {
	"$latchfs" umount "$top/mount" || umount -l "$top/mount" || true
	rm -rf "$top"
}
trap cleanup EXIT
mkdir "$top/mount" "$top/plain"
chmod 755 "$top"
"$latchfs" mount "$top/mount" --log-file "$top/log"

# verdict NAME DIR: LTP's exit codes are bits; 32 alone means "does not apply".
verdict() {
	local work rc=0
	work=$(mktemp -d "$2/XXXXXX")
	chmod 777 "$work"
	(cd "$work" && TMPDIR=$work exec timeout -k 5 "${LIMIT:-90}" "$1") >"$top/out" 2>&1 </dev/null || rc=$?
	rm -rf "$work"
	case $rc in
	0) echo PASS ;;
	32) if grep -q TPASS "$top/out"; then echo PASS; else echo CONF; fi ;;
	124 | 137) echo HANG ;;
	*) if [ $((rc & 1)) = 1 ]; then echo FAIL; else echo BROK; fi ;;
	esac
}

bad=0 ran=0
printf '%-12s %-6s %s\n' test plain mount
for path in "$tests"/flock/flock[0-9]* "$tests"/fcntl/fcntl[0-9]*; do
	name=$(basename "$path")
	[[ -x $path && -f $path && $name =~ ^[a-z]+[0-9]+(_64)?$ ]] || continue
	plain=$(verdict "$name" "$top/plain") mount=$(verdict "$name" "$top/mount") note=
	ran=$((ran + 1))
	if [ "$plain" != "$mount" ]; then
		note=differs
		if [[ $name =~ ^$differs(_64)?$ ]]; then note='differs, as it has to'; else bad=1; fi
	fi
	printf '%-12s %-6s %-6s %s\n' "$name" "$plain" "$mount" "$note"
done
[ $ran -gt 0 ] || { echo "no built tests in $tests" >&2; exit 2; }
exit $bad
