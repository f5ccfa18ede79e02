package integration

import (
	"strings"
	"testing"
)

// talk is the python side of conversations with .locks/control.
const talk = `
import os, sys, json, time, fcntl, signal, subprocess, threading
class Talk:
    def __init__(self):
        self.fd, self.buf = os.open(".locks/control", os.O_RDWR), b""
    def send(self, **q):
        os.write(self.fd, json.dumps(q).encode() + b"\n")
    def recv(self):
        while b"\n" not in self.buf:
            got = os.read(self.fd, 65536)
            if not got:
                return {"ok": False, "error": "end of file"}
            self.buf += got
        line, self.buf = self.buf.split(b"\n", 1)
        return json.loads(line)
    def ask(self, **q):
        self.send(**q)
        return self.recv()
    def take(self, *paths, **q):
        return self.ask(op="acquire", paths=list(paths), wait="0s", **q)
    def close(self):
        os.close(self.fd)
def stranger(code):
    # Whose parent is gone is nobody's heir.
    r, w = os.pipe()
    if os.fork() == 0:
        if os.fork() == 0:
            parent = os.getppid()
            while os.getppid() == parent and parent != 1:
                time.sleep(0.001)
            time.sleep(0.03) # for 10 ms latchfs believes what it knew of the parent
            try:
                out = code()
            except OSError as e:
                out = e.strerror
            os.write(w, json.dumps(out).encode())
        os._exit(0)
    os.close(w)
    os.wait()
    return json.loads(os.fdopen(r).read() or "null")
def taken(*paths, **q):
    return stranger(lambda: Talk().take(*paths, **q))
def want(got, **fields):
    for k, v in fields.items():
        if got.get(k) != v:
            print("got", got, "want", fields)
`

// asksControl runs a script of conversations on every kind of mount; it prints
// what is wrong.
func asksControl(t *testing.T, script string, options ...mountOption) {
	t.Helper()
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.WriteFile("f", "f\n")
		m.WriteFile("g", "g\n")
		if out := m.Python(t, talk+script); strings.TrimSpace(out) != "" {
			t.Error(out)
		}
	}, options...)
}

// A guard is on a name: what becomes of the file does not take it away.
func TestClaimStaysOnItsName(t *testing.T) {
	asksControl(t, `
a = Talk()
want(a.take("f", "data.bin"), ok=True)
with open("f", "r+") as f:
    f.write("new")
    os.rename("f", "f.bak")
    want(taken("f"), error="lock_blocked")
    want(taken("f.bak"), error="lock_blocked")
want(taken("f.bak"), ok=True)
with open("data.bin", "w") as f:
    f.write("x" * 100)
with open("data.bin", "r+") as f:
    fcntl.lockf(f, fcntl.LOCK_EX, 10)
    f.write("y")
    want(taken("data.bin"), error="lock_blocked")
    want(taken("f"), error="lock_blocked")
`)
}

// The flock of a live file is seen, and kept out, under its name.
func TestClaimOnALiveFile(t *testing.T) {
	asksControl(t, `
lock = open("svc.lock", "w")
fcntl.flock(lock, fcntl.LOCK_EX)
want(Talk().ask(op="check", paths=["svc.lock"])["locks"][0], locked=True)
want(taken("svc.lock"), error="lock_blocked")
fcntl.flock(lock, fcntl.LOCK_UN)
a = Talk()
want(a.take("svc.lock"), ok=True)
def try_flock():
    with open("svc.lock") as f:
        fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return "locked"
got = stranger(lambda: fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB))
if got != "Resource temporarily unavailable":
    print("a stranger's flock:", got)
`)
}

// Part of a claim is given back while an heir has the other part open.
func TestPartOfAClaim(t *testing.T) {
	asksControl(t, `
a = Talk()
first = a.take("f", "g")
child = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=open("f", "r+"))
want(a.ask(op="release", paths=["g"]), ok=True, released=1)
want(taken("g"), ok=True)
want(taken("f"), error="lock_blocked")
child.communicate(b"")
want(a.ask(op="release", lock=first["lock"]), ok=True, released=1)
want(taken("f"), ok=True)
`)
}

// Requests that make no sense, or would keep everybody waiting, are refused.
func TestRefusedRequests(t *testing.T) {
	asksControl(t, `
a = Talk()
os.write(a.fd, b'{"op":"acquire","paths":["caf\xe9"]}\n')
want(a.recv(), error="invalid")
os.write(a.fd, b'{"op":"acquire","paths":["\\ud800"]}\n')
want(a.recv(), error="invalid")
want(a.take("a/" * 3000), error="invalid")
want(a.take("x" * 256), error="invalid")
want(a.take("../f"), error="invalid")
want(a.take(".locks/x"), error="invalid")
want(a.take(".latchfs"), error="invalid")
want(a.take(""), error="invalid")
want(a.take("a\0b"), error="invalid")
want(a.take(*[str(n) for n in range(1001)]), error="invalid")
want(a.take("f/g"), error="not_allowed" if os.getuid() else "not_allowed")
want(a.take("f", ttl="1ns"), ok=True)
want(a.ask(op="release", lock="no-such"), ok=True)
`)
}

// A reply that comes late is no end of the file.
func TestRepliesAreComplete(t *testing.T) {
	asksControl(t, `
def work():
    a = Talk()
    for n in range(100):
        got = a.ask(op="acquire", paths=["f"], wait="20s")
        if not got["ok"]:
            print(got)
        a.ask(op="release", all=True)
for _ in range(4):
    if os.fork() == 0:
        if os.fork() == 0:
            work()
        else:
            os.wait()
        os._exit(0)
for _ in range(4):
    os.wait()
`)
}

// Who is refused because of a guard learns how it could be let in.
func TestRefusalNamesTheSession(t *testing.T) {
	asksControl(t, `
a = Talk()
lock = a.take("f")["lock"]
def refused():
    try:
        os.close(os.open("f", os.O_RDWR | os.O_NONBLOCK))
        return "opened"
    except BlockingIOError:
        return open(".locks/why").read()
why = stranger(refused)
if "LATCHFS_SESSION=" + lock not in why:
    print(why)
`)
}
