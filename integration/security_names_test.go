package integration

import "testing"

// A name with control characters, or marks that turn the direction of text, moves
// nobody's terminal: everything that prints it escapes them, JSON too.
func TestNamesOfControlCharactersAreEscaped(t *testing.T) {
	amongUsers(t, `
odd = "a\x1b[2Jb\x7fc\x9bd\u202ee\u2066f\u200fg\u2028h"
raw = [c.encode() for c in "\x1b\x7f\x9b\u202e\u2066\u200f\u2028"]
env = dict(os.environ, LATCHFS_ACTOR="who\u202e\x9b")
def make():
    subprocess.run([sys.executable, "-c", "import sys; [open(sys.argv[1], 'w').write(x) for x in 'ab']", odd], env=env, check=True)
    os.mkdir(odd + "d"); os.symlink(odd, odd + "l"); os.unlink(odd + "l")
    os.chmod(odd, 0o644)
as_user(BOB, make)
latchfs = sys.argv[1]
out = {}
f = os.open(".locks/control", os.O_RDWR)
os.write(f, json.dumps({"op": "acquire", "paths": [odd], "operation": "op\u202e\x9b"}).encode() + b"\n"); out["acquire"] = os.read(f, 65536)
os.write(f, json.dumps({"op": "check", "paths": [odd, "no" + odd]}).encode() + b"\n"); out["check"] = os.read(f, 65536)
def command(*argv):
    got = subprocess.run([latchfs, *argv], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    out[" ".join(argv[:2])] = got.stdout
for argv in (["audit"], ["audit", "--json"], ["history", "--json"], ["history"], ["list"], ["list", "--json"], ["check", odd],
             ["check", "--json", odd], ["steal", odd], ["steal", "--json", odd], ["release", odd], ["policy", "test", odd],
             ["undo", "--actor", "who\u202e\x9b", "--since", "1h", "-n"], ["undo", "--json", "--actor", "who\u202e\x9b", "--since", "1h", "-n"],
             ["cat", "no/such/" + odd], ["restore", "no/such/" + odd]):
    command(*argv)
for name in ("status", "status.json", "events.jsonl", "history.jsonl", "why", "programs"):
    with open(".locks/" + name, "rb") as g:
        out[name] = g.read()
for name, text in sorted(out.items()):
    for c in raw:
        if c in text:
            print("%s prints %r: %r" % (name, c, text[max(0, text.index(c) - 200):][:400]))
within("events.jsonl", out["events.jsonl"].decode(), "\\u202e", "\\u009b", "\\u007f")
seen = [json.loads(line).get("path") for line in out["events.jsonl"].decode().splitlines()]
if odd not in seen or odd + "d" not in seen:
    print("events.jsonl has other names: %r" % seen)
`)
}

// A label is anybody's word: the audit trail shows the user beside it, and takes back
// nobody's change but one's own.
func TestLabelsAreShownWithTheirUser(t *testing.T) {
	amongUsers(t, `
latchfs = sys.argv[1]
env = dict(os.environ, LATCHFS_ACTOR="agent-7")
def save(name, text):
    subprocess.run([sys.executable, "-c", "import sys, os; f = open(sys.argv[1], 'w'); f.write(sys.argv[2]); f.close(); os.chmod(sys.argv[1], 0o666)", name, text], env=env, check=True)
def undo(*argv):
    got = subprocess.run([latchfs, "undo", "--actor", "agent-7", "--since", "1h", *argv], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return got.returncode, got.stdout.decode()
as_user(ALICE, lambda: save("hers", "alice"))
want("nothing of bob's yet", as_user(BOB, undo)[0], 1)
as_user(BOB, lambda: save("his", "bob"))
as_user(ALICE, lambda: save("both", "alice"))
as_user(BOB, lambda: read("both") and save("both", "bob"))

trail = subprocess.run([latchfs, "audit", "--actor", "agent-7"], stdout=subprocess.PIPE).stdout.decode()
for line in trail.splitlines():
    within("a line of audit", line, "agent-7 of user uid ")
within("audit", trail, "61001", "61002")
only = subprocess.run([latchfs, "audit", "--actor", "agent-7", "--user", "61002"], stdout=subprocess.PIPE).stdout.decode()
within("audit --user", only, "his")
without("audit --user", only, "hers", "61001")

# Root is asked whose label it means.
code, text = undo("-n")
want("root's undo", code, 1)
within("root's undo", text, "several users", "61001", "61002", "--user")
within("root's undo --user", undo("-n", "--user", "61001", "hers")[1], "delete", "hers")
without("root's undo --user", undo("-n", "--user", "61001")[1], "his")

# Bob takes back what he did, and not what alice did: not with --force either.
code, text = as_user(BOB, lambda: undo("--user", "61001"))
within("bob's undo --user alice", text, "only root")
code, text = as_user(BOB, lambda: undo("--keep-going"))
without("bob's undo", text, "hers")
want("what alice did", as_user(BOB, lambda: read("hers")), "alice")
want("what bob did", os.path.exists("his"), False)
want("both", read("both"), "alice")
as_user(BOB, lambda: read("both") and save("both", "bob again"))
as_user(ALICE, lambda: read("both") and save("both", "alice again"))
code, text = as_user(BOB, lambda: undo("--force", "both"))
want("bob's undo --force", code, 1)
within("bob's undo --force", text, "refused", "only root")
want("both", read("both"), "alice again")
`)
}

// Bob may not take back what he did before alice's change, and is told of that one, although
// the last change is his.
func TestUndoNamesTheOtherUsersChange(t *testing.T) {
	amongUsers(t, `
latchfs = sys.argv[1]
def run(*argv, **env): subprocess.run(argv, env=dict(os.environ, **env), check=True)
def write_in(shell, text): return lambda: run(shell, "-c", "echo %s > both; chmod -f 666 both || :" % text)
as_user(ALICE, write_in("bash", "first"))
as_user(BOB, lambda: run("bash", "-c", "bash -c 'echo bob > both; :'", LATCHFS_ACTOR="agent-7"))
as_user(ALICE, write_in("bash", "alice"))
as_user(BOB, lambda: run("cp", "/etc/hostname", "both"))
def undo():
    got = subprocess.run([latchfs, "undo", "--actor", "agent-7", "--since", "1h", "-n"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return got.returncode, got.stdout.decode()
code, text = as_user(BOB, undo)
want("bob's undo", code, 1)
within("bob's undo", text, "another user has changed it since", "by bash[")
without("bob's undo", text, "cp[")
`)
}
