package integration

import "testing"

// Workers take a lock, read the last number, append the next one without a newline, and give the
// lock back: by closing the file, by unlocking it, or by closing another descriptor of it. Whoever
// gets the lock next finds the number.
func TestNumberIsAppendedUnderALock(t *testing.T) {
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.Python(t, `
import fcntl, os
def unlocks(lock):
    def work():
        f = open("n", "a+"); lock(f, fcntl.LOCK_EX); count(f)
        f.flush(); lock(f, fcntl.LOCK_UN); f.close()
    return work
def closes(lock):
    def work():
        f = open("n", "a+"); lock(f, fcntl.LOCK_EX); count(f); f.close()
    return work
def closes_another():
    f = open("n", "a+"); fcntl.lockf(f, fcntl.LOCK_EX)
    another = os.open("n", os.O_RDONLY)
    count(f); f.flush()
    os.close(another)
    f.close()
def count(f):
    f.seek(0)
    f.write(" %d" % (int(f.read().split()[-1]) + 1))
ways = {"lockf, close": closes(fcntl.lockf), "flock, close": closes(fcntl.flock), "lockf, unlock": unlocks(fcntl.lockf),
        "flock, unlock": unlocks(fcntl.flock), "lockf, close of another": closes_another}
for name, work in ways.items():
    with open("n", "w") as f: f.write("0")
    for worker in range(2):
        if os.fork() == 0:
            os.setsid()
            for n in range(10): work()
            os._exit(0)
    for worker in range(2): assert os.wait()[1] == 0, name
    got, want = open("n").read(), " ".join(str(n) for n in range(21))
    assert got == want, (name, got)
`)
	})
}

// A child writes through a descriptor that its parent has opened to append, while the child's
// family, and not the parent, has the file locked: by a guard, or by a session of its own. What
// it appends does not wait for the lock, nor for the child's end, which waits for its close.
func TestAppendThroughTheParentsDescriptorUnderALock(t *testing.T) {
	inTestAll(t)
	alongside(t)
	needsLatchfs(t)
	for name, w := range map[string]struct{ script, holds string }{
		"guard":                {`exec 7>>f; "$1" guard f -- sh -c 'echo line >&7'`, "old\nline\n"},
		"guard of a tree":      {`exec 7>>f; "$1" guard --tree . -- sh -c 'echo line >&7'`, "old\nline\n"},
		"half lines":           {`exec 7>>f; "$1" guard f -- sh -c 'env printf ha >&7; env printf "lf\n" >&7; cat f'`, "old\nhalf\n"},
		"half, and a pause":    {`exec 7>>f; "$1" guard f -- sh -c 'env printf ha >&7; while [ $(wc -c < f) = 4 ]; do :; done; env printf "lf\n" >&7'`, "old\nhalf\n"},
		"cut":                  {`exec 7>>f; "$1" guard f -- python3 -c 'import os; os.write(7, b"a\n"); os.ftruncate(7, 2); os.write(7, b"z\n")'`, "olz\n"},
		"room":                 {`exec 7>>f; "$1" guard f -- python3 -c 'import os; os.posix_fallocate(7, 0, 6); os.write(7, b"z\n")'`, "old\n\x00\x00z\n"},
		"session":              {`exec >>f; sh -c 'exec 5<>f; echo XX >&5; echo hello'`, "XX\n\nhello\n"},
		"session, and a guard": {`exec >>f; "$1" guard f -- sh -c 'exec 5<>f; echo XX >&5; echo hello'`, "XX\n\nhello\n"},
	} {
		t.Run(name, func(t *testing.T) {
			forEachMount(t, func(t *testing.T, m *Mount) {
				m.WriteFile("f", "old\n")
				mustEndWith(t, m.Bash(t, w.script, bench.binary), 0)
				if got := m.ReadFile("f"); got != w.holds {
					t.Errorf("the file holds %q, want %q", got, w.holds)
				}
			})
		})
	}
}
