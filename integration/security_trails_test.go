package integration

import (
	"strings"
	"testing"
)

// What one user does to the trails of another: the audit trail, the history, and the
// bytes that are kept of refused writes.

// A label is bounded, in a request and in the environment, and an event with it.
func TestLabelsAreBounded(t *testing.T) {
	amongUsers(t, `
def ask(**request):
    fd = os.open(".locks/control", os.O_RDWR)
    os.write(fd, json.dumps(request).encode() + b"\n")
    reply = json.loads(os.read(fd, 65536))
    os.close(fd)
    return reply
def labels():
    for key in "operation", "actor", "reason":
        got = ask(op="acquire", names=["n"], wait="0s", **{key: "x" * 300_000})
        want(key, got.get("message"), key + " is too long: 300000 bytes, and at most 256 are kept")
    want("a long one", ask(op="acquire", names=["n"], wait="0s", operation="x" * 256)["ok"], True)
    script = "f = open('by-bob', 'w'); f.write('x'); f.close()"
    subprocess.run([sys.executable, "-c", script], env={"LATCHFS_ACTOR": "y" * 100_000}, check=True)
want("bob", as_user(BOB, labels), None)
events = read(".locks/events.jsonl")
without("the trail", events, "x" * 257, "y" * 257)
within("the trail", events, "x" * 256, "y" * 200)
`)
}

// A user who floods the audit trail with requests pushes out of it what no other user
// has done.
func TestFloodLeavesOthersEvents(t *testing.T) {
	const script = `
def hers():
    os.mkdir("hers")
    for name in "one", "two": write("hers/" + name, "x")
    os.unlink("hers/one")
def prepare():
    os.makedirs(deep)
def flood(): # an event has the path three times, and each byte of it as six
    fd = os.open(".locks/control", os.O_RDWR)
    for i in range(100):
        os.write(fd, json.dumps({"op": "acquire", "paths": [deep + "/%d" % i], "wait": "0s"}).encode() + b"\n")
        want("acquire", json.loads(os.read(fd, 65536)).get("ok"), True)
        os.write(fd, json.dumps({"op": "release", "all": True}).encode() + b"\n")
        want("release", json.loads(os.read(fd, 65536)).get("ok"), True)
deep = "/".join(["his"] + ["\x01" * 250] * 10)
want("alice", as_user(ALICE, hers), None)
want("bob", as_user(BOB, prepare), None)
newest = lambda: "".join(read(sys.argv[2] + "/.latchfs/" + name) for name in ("events.jsonl", "events.jsonl.1"))
kept = sys.argv[2] + "/.latchfs/events.jsonl.2"
for i in range(50):
    want("the flood", as_user(BOB, flood), None)
    if os.path.exists(kept): break
without("what is newest in the trail", newest(), "hers/")
audit = subprocess.run([sys.argv[1], "audit", "--json", "--user", str(ALICE)], stdout=subprocess.PIPE).stdout.decode()
got = [(e["event"], e["path"]) for e in map(json.loads, audit.splitlines())]
for event in ("make_dir", "hers"), ("commit", "hers/one"), ("commit", "hers/two"), ("delete", "hers/one"):
    if event not in got: print("the trail lacks", event, "of", got)
if len(got) > 10: print("more than hers:", len(got))
`
	needsRoot(t)
	needsLatchfs(t)
	m := mount(t, asInstalled())
	if out := m.Python(t, "import os\nos.chmod('.', 0o1777)\n"+asOthers+script, bench.binary, m.Data); strings.TrimSpace(out) != "" {
		t.Error(out)
	}
}

// Whoever is refused again and again is counted, and others' events are not.
func TestRefusalsAreCounted(t *testing.T) {
	amongUsers(t, `
os.mkdir("held"); os.chmod("held", 0o777)
for name in "held/f", "held/g":
    write(name, "1")
    os.chmod(name, 0o666)
hold = "import sys; f, g = open('held/f', 'r+'), open('held/g', 'r+'); print(flush=True); sys.stdin.read()"
holder = subprocess.Popen([sys.executable, "-c", hold], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
holder.stdout.readline()
def bob():
    for i in range(542):
        want("bob %d" % i, attempt(lambda: os.open("held/f", os.O_RDWR | os.O_NONBLOCK)), "errno Resource temporarily unavailable")
def alice():
    want("alice", attempt(lambda: os.open("held/g", os.O_RDWR | os.O_NONBLOCK)), "errno Resource temporarily unavailable")
as_user(BOB, bob)
as_user(ALICE, alice)
def refusals():
    events = [json.loads(line) for line in open(".locks/events.jsonl")]
    return [e for e in events if e["event"] == "refusal"]
deadline = time.monotonic() + 30
while sum(1 + e.get("more", 0) for e in refusals()) < 543 and time.monotonic() < deadline:
    time.sleep(0.01)
got = refusals()
want("refusals", sum(1 + e.get("more", 0) for e in got), 543)
want("refusals of alice", len([e for e in got if e["path"] == "held/g"]), 1)
if len(got) > 543 // 4: print(len(got), "events tell of them")
for e in got:
    if e.get("more", 0) > 0 and "(and %d more like this)" % e["more"] not in e["reason"]: print(e)
holder.communicate()
`, withPolicy("[defaults]\nlost-update = \"off\"\n"))
}

// One user's versions cost others none that are within an equal share.
func TestHistoryIsShared(t *testing.T) {
	amongUsers(t, `
def save(name, n, size):
    for i in range(n):
        with open(name, "wb", 0o644) as f: f.write(b"%d" % i * size)
as_user(ALICE, lambda: save("alice", 4, 1000))
as_user(BOB, lambda: [save("bob%d" % i, 4, 400_000) for i in range(10)] and None)
def old(name):
    count = 0
    for v in os.listdir(".locks/history/" + name):
        try: count += len(open(".locks/history/%s/%s" % (name, v), "rb").read()) > 0
        except OSError: pass
    return count
want("versions of alice", as_user(ALICE, lambda: old("alice")), 3)
def size():
    return sum(os.stat(os.path.join(d, f)).st_blocks * 512 for d, _, files in os.walk(sys.argv[2] + "/.latchfs/history") for f in files if f != "log")
took = settled(size, lambda n: n <= 4 << 20)
if not took or took > 4 << 20: print("the history has", took)
`, withPolicy("[defaults]\nlost-update = \"off\"\n[history]\nmax-bytes = \"4MiB\"\n"))
}

// What is kept of refused writes is bounded for each user, however fast they come.
func TestRejectedBytesAreShared(t *testing.T) {
	amongUsers(t, `
def refused(name, n, size):
    for i in range(n):
        fd = os.open(name, os.O_WRONLY | os.O_CREAT)
        os.write(fd, b"x" * size)
        want("close", attempt(lambda: os.close(fd)), "errno Bad message")
as_user(ALICE, lambda: refused("alice.json", 2, 1000))
as_user(BOB, lambda: refused("bob.json", 12, 1_000_000))
def size():
    return sum(os.stat(os.path.join(d, f)).st_blocks * 512 for d, _, files in os.walk(sys.argv[2] + "/.latchfs/rejected") for f in files)
def paths():
    return [json.loads(read(".locks/rejected/%s/meta.json" % i))["path"] for i in os.listdir(".locks/rejected")]
took = settled(size, lambda n: n <= 5 << 20)
if not took or took > 5 << 20: print("what was refused takes", took)
owners = settled(paths, lambda _: True) or []
want("entries of alice", owners.count("alice.json"), 2)
if not 1 <= owners.count("bob.json") <= 5: print("of bob's", owners.count("bob.json"), "are kept")
`, withPolicy("[[rule]]\nglob = [\"*.json\"]\nvalidate = [\"json\"]\n[rejected]\nmax-bytes = \"4MiB\"\n"))
}
