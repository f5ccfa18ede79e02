package integration

import (
	"strings"
	"testing"
)

// What somebody may not read is not merged into a file of his.
func TestMergeShowsNobodyWhatHeMayNotRead(t *testing.T) {
	needsLatchfs(t)
	requireTool(t, "setpriv")
	forEachRootMount(t, func(t *testing.T, m *Mount) {
		for mode, want := range map[string]string{
			"600": `refused {"a":1,"secret":2}`,
			"640": `{"a":1,"b":3,"secret":2}`,
		} {
			got := m.Bash(t, `
a() { setpriv --reuid 65532 --regid 65532 --groups 65500 -- bash -c "umask 022; $1" bash "${@:2}"; }
mkdir s; chmod 2777 s; cd s; chgrp 65500 .; mkfifo -m 666 ../../read"$1" ../../go"$1"
a 'echo "{\"a\":1}" > j.json'
setpriv --reuid 65533 --regid 65533 --groups 65500 -- bash -c '
umask 022; read -r was < j.json; echo "{\"a\":1,\"b\":3}" > t
echo > ../../read"$1"; read < ../../go"$1"
mv -f t j.json 2> /dev/null || echo -n "refused "' bash "$1" &
read < ../../read"$1"
a 'chmod $1 j.json; echo "{\"a\":1,\"secret\":2}" > j.json' "$1"
echo > ../../go"$1"; wait
tr -d " \n" < j.json; cd ..; rm -r s`, mode)
			mustSee(t, mode, strings.TrimSpace(got.Stdout), want)
		}
	}, withPolicy("[[rule]]\nglob = [\"*.json\"]\nlost-update = \"merge\"\n"), openToAll())
}
