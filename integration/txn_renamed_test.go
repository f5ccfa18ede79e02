package integration

import "testing"

// Who has a file open to append goes with it where a transaction renames it: what is
// appended later is in the file that has the content, and a flock is that file's.
func TestAppenderFollowsATransaction(t *testing.T) {
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		for _, c := range []struct {
			work string
			want string // the files with their lines, and "!" if they are locked
		}{
			{"mv f g", "g one two! h other "},
			{"mv f g; echo new > f", "f new g one two! h other "},
			{"echo more >> f; mv f g", "g one more two! h other "},
			{"mv f g; mv g d/f", "d/f one two! h other "},
			{"mv f g; mv g f", "f one two! h other "},
			{"mv f t; mv h f; mv t h", "f other h one two! "},
			{"mv f g; rm g", "h other "},
			{"mv f g; false", "f one two! h other "},
		} {
			got := m.Bash(t, `
rm -rf f g h t d; mkdir d; echo one > f; echo other > h
exec 5>>f
flock 5
"$1" guard --txn --name t -- bash -c "$2" 5>&- 2>/dev/null
echo two >&5
for name in d/f f g h; do
	[ -e $name ] || continue
	echo -n $name $(cat $name)
	flock -n $name true 5>&- && echo -n " " || echo -n "! "
done`, bench.binary, c.work)
			mustSee(t, c.work, got.Stdout, c.want)
		}
	})
}

// What a transaction has synced and then moved to another directory gets the name there,
// and no other file loses its own: a mail is delivered so (maildir).
func TestTransactionMovesWhatItHasSynced(t *testing.T) {
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		got := m.Bash(t, `
mkdir new; echo theirs > mail; echo theirs > tmp; echo old > new/tmp
"$1" guard --txn --name t -- python3 -c '
import os
for name in "mail", "tmp":
	with open("t1", "w") as f:
		f.write("mine\n")
		f.flush()
		os.fsync(f.fileno())
	os.rename("t1", "new/" + name)
' || echo failed
grep -r . mail tmp new`, bench.binary)
		mustSee(t, "the files", got.Stdout, "mail:theirs\ntmp:theirs\nnew/mail:mine\nnew/tmp:mine\n")
		if kept := m.Bash(t, `cat .locks/history/new/tmp/*`).Stdout; kept != "old\nmine\n" && kept != "old\n" {
			t.Errorf("the history of new/tmp holds %q", kept)
		}
	})
}
