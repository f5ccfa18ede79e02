package integration

import "testing"

// What is below a directory that a user may not search shows nowhere in .locks, and
// no reply tells of it; of what others do elsewhere only what happened shows, and not
// their labels, command lines and directories.
func TestPrivateNamesShowNowhere(t *testing.T) {
	amongUsers(t, `
os.environ["CLAWDBOT_SESSION_ID"] = "HERLABEL"
alices = r'''
import os, sys, fcntl, json, time
os.environ["x"] = "y"
def save(name, text):
    with open(name, "w") as f: f.write(text)
os.mkdir("priv"); os.chmod("priv", 0o700); os.mkdir("priv/sub")
save("priv/divorce.txt", "a"); save("priv/divorce.txt", "b")
os.mkdir("priv/dirname"); os.rmdir("priv/dirname"); os.symlink("divorce-target", "priv/divorcelink")
save("priv/sub/divorce-gone", "x"); os.unlink("priv/sub/divorce-gone"); os.rmdir("priv/sub")
os.mkdir("was"); os.chmod("was", 0o700); save("was/divorce-was", "x"); os.unlink("was/divorce-was"); os.rmdir("was")
save("public", "p"); os.rename("priv/divorce.txt", "moved"); os.rename("moved", "priv/divorce.txt")
os.mkdir("later"); save("later/divorce-out", "x"); os.rename("later/divorce-out", "out"); os.chmod("later", 0o700)
save("away", "x"); os.rename("away", "priv/divorce-away"); save("away", "y"); save("away", "z")
open("public", "a").close()
ctl = os.open(".locks/control", os.O_RDWR)
def ask(**q):
    os.write(ctl, json.dumps(q).encode() + b"\n")
    return json.loads(os.read(ctl, 65536))
print(ask(op="acquire", paths=["priv/divorce-lock"], wait="0s", actor="HERLABEL"), file=sys.stderr)
w = open("priv/divorce.txt", "r+"); w.write("in work")
p = open("public", "r+"); p.write("in work")
pid = os.fork()
if pid == 0:
    os.write(1, b"ready\n")
    try: open("priv/divorce.txt", "w")
    except OSError: pass
    os._exit(0)
sys.stdin.readline()
'''
def start():
    os.chdir(".")
    return subprocess.Popen([sys.executable, "-c", alices, "--password=hunter2"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL, user=ALICE, group=ALICE, extra_groups=[62000])
her = start()
her.stdout.readline()
secrets = ("divorce", "priv/", "hunter2", "HERLABEL", "was/")
def walk(top):
    out = []
    for path, dirs, files in os.walk(top):
        for name in dirs + files:
            out.append(os.path.join(path, name))
        for name in files:
            if name != "control":
                try: out.append(read(os.path.join(path, name)))
                except OSError: pass
    return "\n".join(out)
def talk(*requests):
    fd = os.open(".locks/control", os.O_RDWR)
    out = []
    for q in requests:
        os.write(fd, json.dumps(q).encode() + b"\n")
        out.append(os.read(fd, 1 << 20).decode())
    os.close(fd)
    return out
def look():
    got = {name: read(".locks/" + name) for name in ("status", "status.json", "events.jsonl", "history.jsonl", "programs", "why")}
    for name in ("held", "waiting", "names", "history", "rejected"):
        got[name] = walk(".locks/" + name)
    got["list"], got["check"] = talk({"op": "list"}, {"op": "check", "paths": ["public"]})
    got["audit"] = subprocess.run([sys.argv[1], "audit"], stdout=subprocess.PIPE).stdout.decode()
    got["audit --json"] = subprocess.run([sys.argv[1], "audit", "--json"], stdout=subprocess.PIPE).stdout.decode()
    return got
if not any("divorce" in line for line in read(".locks/status").splitlines()): print("nothing is in work:", read(".locks/status"))
for name, text in as_user(BOB, look).items():
    without("bob's " + name, text, *secrets)
for name in ("status", "status.json", "events.jsonl", "held", "list", "check", "audit"):
    within("bob's " + name, as_user(BOB, look)[name], "public" if name != "check" else '"locked":true')
for q in ({"op": "check", "paths": ["priv/divorce.txt"]}, {"op": "check", "paths": ["priv/nothing"]}):
    within("bob's check", as_user(BOB, lambda: talk(q))[0], "not_allowed")
want("a release of what is private tells nothing", as_user(BOB, lambda: talk({"op": "release", "paths": ["priv/divorce-lock"]})),
     as_user(BOB, lambda: talk({"op": "release", "paths": ["priv/nothing"]})))
hers = as_user(ALICE, look)
for name in ("status", "status.json", "events.jsonl", "history.jsonl", "held", "list", "audit"):
    within("alice's " + name, hers[name], "priv/divorce.txt" if name != "held" else "divorce.txt")
within("alice's events.jsonl", hers["events.jsonl"], "HERLABEL", "was/divorce-was", "priv/divorcelink")
within("alice's history.jsonl", hers["history.jsonl"], '"from":"later/divorce-out"')
within("bob's history.jsonl", as_user(BOB, look)["history.jsonl"], '"path":"out"', '"path":"away"')
within("root's history.jsonl", read(".locks/history.jsonl"), '"to":"priv/divorce-away"')
within("alice's status.json", hers["status.json"], "hunter2", "HERLABEL")
within("root's events.jsonl", read(".locks/events.jsonl"), "HERLABEL", "was/divorce-was")

# What counts is who can reach it now: with the groups and ACLs of the reader.
status = lambda: "divorce" in read(".locks/status") and "divorce" in read(".locks/events.jsonl")
def soon(what, groups, expected): # a view that was dear to make is served again for a second or two
    end = time.monotonic() + 10
    while as_user(BOB, status, groups) != expected and time.monotonic() < end: time.sleep(0.05)
    want(what, as_user(BOB, status, groups), expected)
os.chown("priv", ALICE, 62000); os.chmod("priv", 0o710)
soon("in the group", [62000], True)
soon("not in the group", [], False)
os.chmod("priv", 0o701)
soon("in a group that is denied", [62000], False)
soon("not in that group", [], True)
os.chmod("priv", 0o700)
if not subprocess.run(["setfacl", "-m", "u:%d:x" % BOB, "priv"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode:
    soon("by an ACL", [], True)
    subprocess.run(["setfacl", "-m", "u:%d:-,o::x" % BOB, "priv"])
    soon("despite others", [], False)
    subprocess.run(["setfacl", "-b", "priv"])
os.chmod("priv", 0o700)

# Who follows the trail sees what comes as far as it can reach it then.
r, w = os.pipe(); r2, w2 = os.pipe()
if os.fork() == 0:
    become(BOB)
    with open(".locks/events.jsonl") as f:
        before = f.read()
        os.write(w, b"1"); os.read(r2, 1)
        after = f.read()
    os.write(w, after.encode())
    os._exit(0)
os.read(r, 1)
write("priv/divorce-later", "x"); write("public-later", "x")
os.write(w2, b"1")
os.wait()
text = os.read(r, 1 << 20).decode()
within("what bob follows", text, "public-later")
without("what bob follows", text, *secrets)
her.stdin.close(); her.wait()
`, withPolicy("[defaults]\nwait = \"5s\"\n"))
}

// What programs write back shows to nobody who cannot reach it, and the arguments of a
// program to its user alone.
func TestProgramsShowNoPrivateNames(t *testing.T) {
	amongUsers(t, `
def hers():
    os.mkdir("priv", 0o700)
    write("priv/divorce.txt", "a")
    write("priv/divorce.py", "with open('priv/divorce.txt') as f: old = f.read()\nwith open('priv/divorce.txt', 'w') as f: f.write(old + 'b')\n")
    for i in range(3): subprocess.run([sys.executable, "priv/divorce.py"], check=True)
want("alice", as_user(ALICE, hers), None)
programs = lambda: read(".locks/programs")
deadline = time.monotonic() + 20
while "divorce.txt" not in programs() and time.monotonic() < deadline: time.sleep(0.01)
within("alice's programs", as_user(ALICE, programs), "divorce.txt", "divorce.py")
within("bob's programs", as_user(BOB, programs), "a file at")
without("bob's programs", as_user(BOB, programs), "divorce", "priv")
os.chmod("priv", 0o711)
within("what bob can reach", as_user(BOB, programs), "divorce.txt")
without("what bob can reach", as_user(BOB, programs), "divorce.py")
`, withPolicy("[defaults]\nlost-update = \"adaptive\"\n"), leftLocks())
}

// A relative of another user reads nothing of what was refused: everybody on a machine
// descends from one sshd or cron.
func TestRefusalsAreTheirUsers(t *testing.T) {
	amongUsers(t, `
write("f", "x"); os.chmod("f", 0o666)
script = "import os,sys\ntry:\n os.open('f', os.O_WRONLY|os.O_NONBLOCK)\nexcept OSError: pass\nprint(open('.locks/why').read())"
def run(uid, code):
    return subprocess.run([sys.executable, "-c", code], user=uid, group=uid, extra_groups=[], stdout=subprocess.PIPE, start_new_session=True).stdout.decode()
other = subprocess.Popen([sys.executable, "-c", "import sys; f = open('f', 'r+'); f.write('z'); print(flush=True); sys.stdin.readline()"],
    stdin=subprocess.PIPE, stdout=subprocess.PIPE)
other.stdout.readline()
within("alice's why", run(ALICE, script), "EAGAIN")
without("bob's why", run(BOB, "print(open('.locks/why').read())"), "EAGAIN")
within("root's why", read(".locks/why"), "EAGAIN")
other.stdin.close(); other.wait()
`)
}

// The audit trail of a theft shows nobody the command line of whoever was robbed.
func TestTheftShowsNoCommandLine(t *testing.T) {
	amongUsers(t, `
latchfs = sys.argv[1]
write("f", "x"); os.chmod("f", 0o666)
holder = subprocess.Popen([sys.executable, "-c", r'''
import os, sys, json
fd = os.open(".locks/control", os.O_RDWR)
os.write(fd, json.dumps({"op": "acquire", "paths": ["f"], "ttl": "100ms"}).encode() + b"\n")
os.read(fd, 4096)
print(flush=True)
sys.stdin.readline()
''', "--password=hunter2"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, user=ALICE, group=ALICE, extra_groups=[])
holder.stdout.readline()
import signal
holder.send_signal(signal.SIGSTOP)
def stolen():
    until = time.time() + 30
    while time.time() < until:
        got = subprocess.run([latchfs, "steal", "--force", "f"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if got.returncode == 0:
            return True
        time.sleep(0.02)
    return got.stdout.decode()
want("the theft", as_user(BOB, stolen), True)
for who, text in (("root", read(".locks/events.jsonl")), ("bob", as_user(BOB, lambda: read(".locks/events.jsonl")))):
    within(who + "'s events", text, "lock_stolen")
    without(who + "'s events", text, "hunter2", '"cwd"', '"command"')
holder.send_signal(signal.SIGCONT); holder.stdin.close(); holder.wait()
`)
}
