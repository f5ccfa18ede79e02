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
