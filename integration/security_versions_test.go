package integration

import "testing"

// An earlier version is read by whoever could read it when it was kept, and can read
// the file now, and by nobody else: whatever became of modes, directories, names.
func TestVersionsKeepTheirSecrets(t *testing.T) {
	amongUsers(t, `
def save(name, *texts):
    for text in texts:
        write(name, text)
def alices():
    # In a directory that is opened later.
    os.mkdir("d1"); os.chmod("d1", 0o700); save("d1/f", "SECRET1", "SECRET1b", "now"); os.chmod("d1", 0o755)
    # Removed before the directory got a public name, and a file that was moved out.
    os.mkdir("d2"); os.chmod("d2", 0o700); save("d2/gone", "SECRET2", "SECRET2b"); os.unlink("d2/gone")
    save("d2/f", "SECRET2c", "moved"); os.rename("d2/f", "out")
    os.chmod("d2", 0o755); os.rename("d2", "pub2")
    # Closed since.
    save("f3", "SECRET3", "now"); os.chmod("f3", 0o600)
    # Removed when it was closed, and a directory closed at the end.
    save("f4", "SECRET4"); save("f4", "SECRET4b"); os.chmod("f4", 0o600); os.unlink("f4")
    os.mkdir("d5"); save("d5/f", "SECRET5", "SECRET5b"); os.chmod("d5", 0o700); os.unlink("d5/f"); os.chmod("d5", 0o755)
    # In a directory that is gone.
    os.mkdir("d6"); os.chmod("d6", 0o700); save("d6/f", "SECRET6", "SECRET6b"); os.unlink("d6/f"); os.rmdir("d6"); os.mkdir("d6")
    # With an ACL on the file, or on a directory then.
    save("f7", "x")
    if not subprocess.run(["setfacl", "-m", "u:%d:-" % BOB, "f7"], stderr=subprocess.DEVNULL).returncode:
        save("f7", "SECRET7", "now"); subprocess.run(["setfacl", "-b", "f7"])
        os.mkdir("d8"); subprocess.run(["setfacl", "-m", "u:%d:-" % BOB, "d8"]); save("d8/f", "SECRET8", "now"); subprocess.run(["setfacl", "-b", "d8"])
    # What everybody may read, what only the team may, and what is gone.
    save("public", "OPEN1", "now"); save("removed", "OPEN2", "OPEN3"); os.unlink("removed")
    os.mkdir("team"); os.chmod("team", 0o770); save("team/f", "TEAM1", "now"); os.chmod("team/f", 0o664)
as_user(ALICE, alices, [62000])
os.chown("team", ALICE, 62000); os.chmod("team", 0o2770)
as_user(ALICE, lambda: save("team/f", "TEAM2", "TEAM3"), [62000])
def contents():
    out = []
    for path, _, files in os.walk(".locks/history"):
        for name in files:
            try: out.append(read(os.path.join(path, name)))
            except OSError as e: out.append(repr(e))
    return "\n".join(sorted(out)) + read(".locks/history.jsonl")
bobs = as_user(BOB, contents)
without("bob's history", bobs, "SECRET", "TEAM", "gone", "d6/f")
within("bob's history", bobs, "OPEN1", "OPEN2", "OPEN3")
within("the team's history", as_user(BOB, contents, [62000]), "TEAM2")
without("the team's history", as_user(BOB, contents, [62000]), "SECRET")
within("alice's history", as_user(ALICE, contents, [62000]), "SECRET1", "SECRET1b", "SECRET3", "SECRET4", "SECRET4b", "SECRET5b", "OPEN1", "OPEN3", "TEAM2")
within("root's history", contents(), *("SECRET%d" % i for i in range(1, 7)))
`)
}

// Who could read a version when it was kept is still known after a restart.
func TestVersionsKeepTheirSecretsOverARestart(t *testing.T) {
	needsRoot(t)
	needsLatchfs(t)
	m := mount(t)
	m.Python(t, asOthers+`
os.chmod('.', 0o1777)
def alices():
    os.mkdir("d"); os.chmod("d", 0o700); write("d/f", "SECRET"); write("d/f", "now"); os.chmod("d", 0o755)
    write("public", "OPEN"); write("public", "now")
as_user(ALICE, alices)
`)
	for _, how := range []string{"stop", "crash"} {
		if how == "stop" {
			m.Stop(t)
		} else {
			m.Crash(t)
		}
		m.Start(t)
		out := m.Python(t, asOthers+`
def contents():
    return "".join(read(os.path.join(path, name)) for path, _, files in os.walk(".locks/history") for name in files)
got = as_user(BOB, contents)
within("bob's history", got, "OPEN")
without("bob's history", got, "SECRET")
within("alice's history", as_user(ALICE, contents), "OPEN", "SECRET")
`)
		if out != "" {
			t.Errorf("after a %s: %s", how, out)
		}
	}
}

// Refused bytes are for whoever could reach the file and may read it now. An ACL that
// keeps a user out of the file keeps it out of the bytes.
func TestRejectedBytesKeepTheirSecrets(t *testing.T) {
	amongUsers(t, `
def alices():
    write("open.json", "{}")
    os.mkdir("was"); os.chmod("was", 0o700); write("was/f.json", "{}")
    write("acl.json", "{}"); write("closed.json", "{}"); write("had.json", "{}")
    for name in ("acl.json", "had.json"):
        subprocess.run(["setfacl", "-m", "u:%d:-" % BOB, name], stderr=subprocess.DEVNULL)
    for name, text in (("open.json", "{OPEN"), ("was/f.json", "{SECRET1"), ("acl.json", "{SECRET2"), ("closed.json", "{SECRET3"), ("had.json", "{SECRET4")):
        try:
            write(name, text)
            print("accepted:", name)
        except OSError as e:
            pass
    os.chmod("was", 0o755); os.chmod("closed.json", 0o600)
    subprocess.run(["setfacl", "-b", "had.json"], stderr=subprocess.DEVNULL)
as_user(ALICE, alices)
def contents():
    return "\n".join(read(os.path.join(path, name)) for path, _, files in os.walk(".locks/rejected") for name in files)
got = as_user(BOB, contents)
within("bob's rejected", got, "{OPEN")
if subprocess.run(["setfacl", "--version"], stdout=subprocess.DEVNULL).returncode == 0:
    without("bob's rejected", got, "SECRET")
within("alice's rejected", as_user(ALICE, contents), "{OPEN", "SECRET1", "SECRET2", "SECRET3", "SECRET4")
`, withPolicy("[[rule]]\nglob = \"**/*.json\"\nvalidate = \"json\"\n"))
}

// What is forgotten is gone for good: no command finds it, and neither the state
// directory nor a restart has it. Others' versions are not a user's to erase.
func TestForget(t *testing.T) {
	needsRoot(t)
	needsLatchfs(t)
	m := mount(t, withPolicy("[[rule]]\nglob = \"**/*.json\"\nvalidate = \"json\"\n"))
	out := m.Python(t, asOthers+`
os.chmod('.', 0o1777)
latchfs, state = sys.argv[1], sys.argv[2]
def forget(*argv):
    got = subprocess.run([latchfs, "forget", *argv], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return got.returncode, got.stdout.decode()
def save(name, *texts):
    for text in texts:
        try: write(name, text)
        except OSError: pass
def on_disk(*words):
    got = subprocess.run(["grep", "-rlaE", "|".join(words), state + "/history", state + "/rejected"], stdout=subprocess.PIPE).stdout.decode()
    return [line for line in got.splitlines() if not line.endswith("/log")]
as_user(ALICE, lambda: save("f.json", '"HERS1"', '"HERS2"', '{HERS3', '"HERS4"', '"now"'))
as_user(ALICE, lambda: save("gone", "HERS5", "HERS6") or os.unlink("gone"))
as_user(ALICE, lambda: save("one", "HERS7", "STAYS", "now"))
os.chmod("one", 0o666); as_user(BOB, lambda: read("one") and save("one", "BOBS"))
want("it is there", len(on_disk("HERS")), 7)
for argv in (["f.json"], ["gone"], ["--version", "1", "one"]):
    code, text = as_user(BOB, lambda: forget(*argv))
    want("bob's forget %s" % argv, code, 1)
    within("bob's forget", text, "another user")
want("it is there", len(on_disk("HERS")), 7)
code, text = as_user(ALICE, lambda: forget("f.json"))
want("alice's forget", (code, text), (0, "erased of f.json: 3 versions and 1 refused write, 27 bytes\n"))
want("forget again", as_user(ALICE, lambda: forget("f.json"))[0], 0)
want("the file", read("f.json"), '"now"')
want("forget of what is gone", as_user(ALICE, lambda: forget("gone"))[0], 0)
want("forget of one version", as_user(ALICE, lambda: forget("--version", "1", "one"))[0], 0)
want("what is left on the disk", on_disk("HERS"), [])
within("the rest", "".join(read(os.path.join(p, n)) for p, _, names in os.walk(".locks/history") for n in names), "STAYS")
want("usage", forget("--version", "0", "one")[0], 2)
want("root", forget("one")[0], 0)
want("what is left on the disk", on_disk("STAYS"), [])
events = [json.loads(line) for line in read(".locks/events.jsonl").splitlines() if '"forget"' in line]
want("events", [(e["path"], e["versions"], e["rejected"], e["uid"]) for e in events],
     [("f.json", 3, 1, ALICE), ("gone", 2, 0, ALICE), ("one", 1, 0, ALICE), ("one", 2, 0, 0)])
without("the trail", read(".locks/events.jsonl"), "HERS")
within("audit", subprocess.run([latchfs, "audit", "--event", "forget"], stdout=subprocess.PIPE).stdout.decode(), "erased: 3 versions, 1 refused write")
`, bench.binary, m.Data+"/.latchfs")
	if out != "" {
		t.Error(out)
	}
	m.Crash(t)
	m.Start(t)
	if out := m.Python(t, `
import os
print([open(os.path.join(p, n)).read() for top in ("history", "rejected") for p, _, names in os.walk(".locks/" + top) for n in names])`); out != "[]\n" {
		t.Errorf("after a restart there is again %s", out)
	}
}
