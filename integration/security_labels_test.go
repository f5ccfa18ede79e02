package integration

import "testing"

// Whose change was refused because of another user's is told who made that change by the
// program and the user, and not by the label under which it worked: not in .locks/why, not
// in the audit trail, and not beside the refused bytes.
func TestRefusalsNameNoForeignLabel(t *testing.T) {
	amongUsers(t, `
def script(uid, text, **env):
    return subprocess.Popen([sys.executable, "-c", text], env=dict(os.environ, **env), user=uid, group=uid, extra_groups=[],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
save = "import sys\nopen(sys.argv[1] if len(sys.argv) > 1 else 'f', 'w').write('hers')"
bobs = r'''
import os
print(open("f").read(), flush=True)
input()
fd = os.open("f", os.O_WRONLY)
for change in lambda: os.write(fd, b"his"), lambda: os.close(fd):
    try: change()
    except OSError as e: print(e.strerror)
print(open(".locks/why").read(), open(".locks/events.jsonl").read())
for path, _, files in os.walk(".locks/rejected"):
    for name in files: print(name, open(os.path.join(path, name)).read())
'''
for uid, shown in ((BOB, False), (ALICE, True), (0, True)):
    with open("f", "w") as f: f.write("old")
    os.chmod("f", 0o666); os.chown("f", BOB, BOB)
    p = script(uid, bobs)
    want("he reads", p.stdout.readline(), "old\n")
    hers = script(ALICE, save, LATCHFS_ACTOR="HERLABEL")
    hers.communicate()
    out, _ = p.communicate("\n")
    within("user %d is told" % uid, out, "f has changed since this program read it")
    if shown:
        within("user %d is told" % uid, out, "[%d] (HERLABEL) saved" % hers.pid)
    else:
        within("user %d is told" % uid, out, "[%d] (uid %d) saved" % (hers.pid, ALICE), '"kept"', '"base": {')
        without("user %d is told" % uid, out, "HERLABEL")
    os.unlink("f")
`)
}
