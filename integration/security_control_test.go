package integration

import (
	"strings"
	"testing"
)

// forEachRootMount runs a test on the mounts that root serves everybody with.
func forEachRootMount(t *testing.T, test func(*testing.T, *Mount), opts ...mountOption) {
	t.Helper()
	needsRoot(t)
	needsLatchfs(t)
	t.Run("root", func(t *testing.T) { test(t, mount(t, opts...)) })
	t.Run("root-nopassthrough", func(t *testing.T) {
		test(t, mount(t, append([]mountOption{noPassthrough()}, opts...)...))
	})
}

// asOthers is the python side of tests with several users, which root runs: what is
// called as another user runs in a process of its own.
const asOthers = `
import os, sys, json, socket, subprocess, time, fcntl, stat
ALICE, BOB = 61001, 61002
def become(uid, groups=()):
    os.setgroups(list(groups))
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)
def as_user(uid, code, groups=()):
    sys.stdout.flush()
    r, w = os.pipe()
    if os.fork() == 0:
        os.close(r)
        try:
            become(uid, groups)
            out = code()
        except OSError as e:
            out = "errno " + os.strerror(e.errno)
        except Exception as e:
            out = "error %r" % e
        os.write(w, json.dumps(out).encode())
        sys.stdout.flush() # what it has found wrong
        os._exit(0)
    os.close(w)
    with os.fdopen(r, "rb") as f:
        got = f.read()
    os.wait()
    return json.loads(got or b"null")
def attempt(code):
    try:
        return code()
    except OSError as e:
        return "errno " + os.strerror(e.errno)
def write(name, text, mode="w"):
    with open(name, mode) as f:
        f.write(text)
def read(name):
    with open(name, errors="replace") as f:
        return f.read()
def want(what, got, expected):
    if got != expected:
        print("%s: %r, want %r" % (what, got, expected))
def without(what, text, *words):
    for w in words:
        if w in text:
            print("%s shows %r:\n%s" % (what, w, text[:4000]))
def within(what, text, *words):
    for w in words:
        if w not in text:
            print("%s lacks %r:\n%s" % (what, w, text[:4000]))
# What a look finds when it finds enough, or at last. What is removed meanwhile is looked at again.
def settled(look, enough):
    deadline = time.monotonic() + 20
    while True:
        try:
            got = look()
        except FileNotFoundError:
            got = None
        if got is not None and enough(got) or time.monotonic() > deadline:
            return got
        time.sleep(0.01)
# A descriptor that another user opened.
def opened_by(uid, path, flags):
    ours, theirs = socket.socketpair()
    if os.fork() == 0:
        become(uid)
        socket.send_fds(theirs, [b"x"], [os.open(path, flags)])
        os._exit(0)
    _, fds, _, _ = socket.recv_fds(ours, 1, 1)
    os.wait()
    return fds[0]
`

// amongUsers runs a script that acts as several users on a root mount in which
// everybody may make files; it prints what is wrong.
func amongUsers(t *testing.T, script string, options ...mountOption) {
	t.Helper()
	forEachRootMount(t, func(t *testing.T, m *Mount) {
		if out := m.Python(t, "import os\nos.chmod('.', 0o1777)\n"+asOthers+script, bench.binary, m.Data); strings.TrimSpace(out) != "" {
			t.Error(out)
		}
	}, options...)
}

// A request counts for whoever opened the control file: another user's process that is
// made to write there, as a setuid program is, gets EPERM, and so does one that reads.
func TestControlIsItsOpeners(t *testing.T) {
	amongUsers(t, `
write("root.conf", "x")
take = b'{"op":"acquire","paths":["root.conf"],"wait":"0s"}\n'
ask = b'{"op":"list"}\n'
held = lambda: json.loads(read(".locks/status.json"))["held"]
fd = opened_by(BOB, ".locks/control", os.O_RDWR)
want("root writes to bob's descriptor", attempt(lambda: os.write(fd, take)), "errno Operation not permitted")
want("root reads from bob's descriptor", attempt(lambda: os.read(fd, 100)), "errno Operation not permitted")
want("held", held(), 0)
want("alice writes to bob's", as_user(ALICE, lambda: os.write(fd, ask)), "errno Operation not permitted")
want("alice reads from bob's", as_user(ALICE, lambda: os.read(fd, 100).decode()), "errno Operation not permitted")
def bob_in_another_group():
    return os.write(fd, ask)
r, w = os.pipe()
if os.fork() == 0:
    os.setgroups([]); os.setresgid(ALICE, ALICE, ALICE); os.setresuid(BOB, BOB, BOB)
    os.write(w, str(attempt(bob_in_another_group)).encode())
    os._exit(0)
os.wait()
want("bob in another group", os.read(r, 100).decode(), "errno Operation not permitted")
os.close(fd)

# Groups that only the writer has give nothing.
os.mkdir("team"); os.chown("team", 0, 62000); os.chmod("team", 0o2770)
write("team/f", "x"); os.chown("team/f", 0, 62000); os.chmod("team/f", 0o660)
fd = opened_by(BOB, ".locks/control", os.O_RDWR)
req = b'{"op":"acquire","paths":["team/f"],"wait":"0s"}\n'
def in_team(fd):
    os.write(fd, req)
    return json.loads(os.read(fd, 4096)).get("error", "ok")
want("the writer's groups", as_user(BOB, lambda: in_team(fd), [62000]), "not_allowed")
want("the opener's groups", as_user(BOB, lambda: in_team(os.open(".locks/control", os.O_RDWR)), [62000]), "ok")
os.close(fd)

# su repeats what it is called with.
if os.path.exists("/bin/su") and os.stat("/bin/su").st_mode & stat.S_ISUID:
    def su():
        fd = os.open(".locks/control", os.O_RDWR)
        subprocess.run(["/bin/su", "\n" + take.decode()], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=fd)
        return held()
    want("held by su", as_user(BOB, su), 0)

# A view is that of whoever opened it.
fd = os.open(".locks/status.json", os.O_RDONLY)
want("root's view in bob's hands", as_user(BOB, lambda: json.loads(os.read(fd, 4096))["held"]), 0)
`)
}
