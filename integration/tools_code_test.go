package integration

import (
	"path/filepath"
	"sync"
	"testing"
)

// saverBinary builds the Go program of the matrix once.
var saverBinary = sync.OnceValues(func() (string, error) {
	path := filepath.Join(bench.root, "saver")
	return path, build(path, "./integration/internal/saver")
})

// saver is the path of integration/internal/saver's binary.
func saver(t *testing.T) string {
	t.Helper()
	path, err := saverBinary()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// codeCases are the idioms in which programs of various languages save.
var codeCases = []toolCase{
	python("open-write", `with open("f", "w") as f: f.write("new")`, one("f")),
	python("open-write-no-close", `open("f", "w").write("new")`, one("f")),
	python("json-dump", `import json
with open("f", "w") as f: json.dump({"a": list(range(2000))}, f)`, one("f")),
	python("json-dump-no-close", `import json
json.dump({"a": 1}, open("f", "w"))`, one("f")),
	python("read-modify-write", `d = open("f").read()
open("f", "w").write(d + "more")`, one("f")),
	python("write-text", `import pathlib
pathlib.Path("f").write_text("new")`, one("f")),
	python("r-plus", `with open("f", "r+") as f:
    d = f.read(); f.seek(0); f.write(d.upper()); f.truncate()`, one("f")),
	python("r-plus-shorter", `with open("f", "r+") as f:
    f.seek(0); f.write("x"); f.truncate()`, one("f")),
	python("r-plus-only-read", `with open("f", "r+") as f: print(f.read())`, nil),
	python("x-mode", `open("n", "x").write("new")
try: open("n", "x")
except FileExistsError as e: print(e.errno)`, one("n")),
	python("append", `with open("f", "a") as f: f.write("more\n")`, each(anyNumber)),
	python("os-open", `import os
fd = os.open("f", os.O_WRONLY | os.O_TRUNC); os.write(fd, b"new"); os.close(fd)`, one("f")),
	python("dup", `import os
fd = os.open("f", os.O_WRONLY | os.O_TRUNC); two = os.dup(fd); os.write(fd, b"a"); os.close(fd); os.write(two, b"b"); os.close(two)`, one("f")),
	python("tempfile-replace", `import os, tempfile
fd, name = tempfile.mkstemp(dir="."); os.write(fd, b"new"); os.fsync(fd); os.close(fd); os.replace(name, "f")`, one("f")),
	python("replace-before-close", `import os, tempfile
t = tempfile.NamedTemporaryFile("w", dir=".", delete=False); t.write("new"); t.flush(); os.replace(t.name, "f"); t.close()`, one("f")),
	python("temporary-file", `import tempfile
t = tempfile.TemporaryFile(dir="."); t.write(b"x"); t.seek(0); print(t.read())`, nil),
	python("subprocess", `import subprocess
with open("f", "w") as f: print(subprocess.run(["echo", "from the child"], stdout=f).returncode)`, one("f")),
	python("subprocess-both-write", `import subprocess
with open("f", "w") as f:
    f.write("parent\n"); f.flush(); subprocess.run(["echo", "child"], stdout=f); f.write("parent again\n")`, one("f")),
	python("popen-parent-closes", `import subprocess
with open("f", "w") as f: c = subprocess.Popen(["sh", "-c", "read x; echo got $x"], stdin=subprocess.PIPE, stdout=f)
c.communicate(b"go\n")`, one("f")),
	python("fork-child-writes", `import os
f = open("f", "w"); p = os.fork()
if p == 0: f.write("child"); f.flush(); os._exit(3)
f.close(); print(os.waitstatus_to_exitcode(os.waitpid(p, 0)[1]))`, map[string]int{"f": anyNumber}),
	python("thread", `import threading
def w(): open("f", "w").write("from a thread")
t = threading.Thread(target=w); t.start(); t.join()`, one("f")),
	python("many-threads", `import threading
def w(i): open("n%d" % i, "w").write("x" * i)
ts = [threading.Thread(target=w, args=(i,)) for i in range(20)]
[t.start() for t in ts]; [t.join() for t in ts]`, map[string]int{"f": 0, "*": 1}),
	python("shutil-copy", `import shutil
shutil.copy("f", "g"); shutil.copy2("f", "h"); shutil.copyfile("f", "i")`, map[string]int{"f": 0, "*": 1}),
	python("shutil-move", `import shutil
open("t", "w").write("moved"); shutil.move("t", "f")`, one("f")),
	python("mmap", `import mmap
with open("f", "r+b") as f:
    m = mmap.mmap(f.fileno(), 0); m[0:3] = b"MAP"; m.flush(); m.close()`, map[string]int{"f": anyNumber}),
	python("truncate", `import os
os.truncate("f", 2)`, one("f")),
	python("sendfile", `import os
with open("f", "rb") as a, open("g", "wb") as b: os.sendfile(b.fileno(), a.fileno(), 0, 100)`, one("g")),
	python("copy-file-range", `import os
with open("f", "rb") as a, open("g", "wb") as b: os.copy_file_range(a.fileno(), b.fileno(), 100)`, one("g")),
	python("writelines-seek", `with open("f", "wb") as f:
    f.seek(5000); f.write(b"end"); f.seek(0); f.write(b"begin")`, one("f")),
	python("logging", `import logging
logging.basicConfig(filename="f", format="%(message)s"); logging.warning("one"); logging.warning("two")`, each(anyNumber)),
	python("fileinput", `import fileinput
for line in fileinput.input("f", inplace=True): print(line.upper(), end="")`, one("f")),
	python("shelve", `import shelve
with shelve.open("s", flag="n") as s: s["k"] = [1, 2]
with shelve.open("s") as s: s["l"] = 3; print(sorted(s))`, each(anyNumber)).varying(`s.*`),
	python("exit-3", `import sys
f = open("f", "w"); f.write("half"); sys.exit(3)`, one("f")),
	python("exception", `f = open("f", "w"); f.write("half"); f.flush()
try: raise ValueError
except ValueError: print("caught")`, one("f")),

	node("writeFileSync", `fs.writeFileSync("f", "new")`, one("f")),
	node("writeFile", `fs.writeFile("f", "new", () => {})`, one("f")),
	node("promises", `fs.promises.writeFile("f", "new").then(() => fs.promises.readFile("f", "utf8")).then(console.log)`, one("f")),
	node("promises-many", `Promise.all([...Array(20).keys()].map(i => fs.promises.writeFile("n" + i, "x".repeat(i)))).then(() => console.log("done"))`,
		map[string]int{"f": 0, "*": 1}),
	node("filehandle", `(async () => { const h = await fs.promises.open("f", "r+"); await h.truncate(2); await h.write("N", 0); await h.close() })()`, one("f")),
	node("stream", `const s = fs.createWriteStream("f"); s.write("a"); s.end("b")`, one("f")),
	node("appendFileSync", `fs.appendFileSync("f", "more\n")`, each(anyNumber)),
	node("renameSync", `fs.writeFileSync("t", "new"); fs.renameSync("t", "f")`, one("f")),
	node("copyFileSync", `fs.copyFileSync("f", "g"); fs.writeFileSync("h", "older and longer"); fs.copyFileSync("f", "h")`,
		map[string]int{"f": 0, "g": 1, "h": 2}),
	node("editor-save", `const d = fs.openSync("f", "w"); fs.writeSync(d, "new"); fs.fdatasyncSync(d); fs.closeSync(d)`, one("f")),
	node("editor-update", `const d = fs.openSync("f", "r+"); fs.ftruncateSync(d, 0); fs.writeSync(d, "new", 0); fs.closeSync(d)`, one("f")),
	node("truncateSync", `fs.truncateSync("f", 2)`, one("f")),
	node("exec-child", `require("child_process").execSync("echo new > f")`, one("f")),
	node("exec-stdio", `const d = fs.openSync("f", "w"); require("child_process").spawnSync("echo", ["child"], {stdio: ["ignore", d, "inherit"]}); fs.closeSync(d)`, one("f")),

	{name: "go-writefile", setup: `echo old > f`, run: `$SAVER writefile f new`, commits: one("f")},
	{name: "go-createtemp-rename", setup: `echo old > f`, run: `$SAVER rename f new`, commits: one("f")},
	{name: "go-threads", run: `$SAVER threads 16; ls | wc -l`, commits: each(1)},
	{name: "perl-open", setup: `echo old > f`, needs: []string{"perl"}, run: `perl -e 'open F, ">", "f"; print F "new"; close F or die'`, commits: one("f")},
	{name: "perl-update", setup: `echo old > f`, needs: []string{"perl"}, run: `perl -e 'open F, "+<", "f"; seek F, 1, 0; print F "NEW"; close F or die'`, commits: one("f")},
	{name: "tcl", setup: `echo old > f`, needs: []string{"tclsh"}, run: `echo 'set f [open f w]; puts $f new; close $f' | tclsh`, commits: one("f")},
}

// python is a case whose program is a Python script; f holds a line before it.
func python(name, script string, commits map[string]int) toolCase {
	return toolCase{
		name: "python-" + name, needs: []string{"python3"}, setup: `echo "old content" > f`, commits: commits,
		run: "\"$PYTHON\" - <<'E'\n" + script + "\nE",
	}
}

// node is a case whose program is a node script; f holds a line before it.
func node(name, script string, commits map[string]int) toolCase {
	return toolCase{
		name: "node-" + name, needs: []string{"node"}, setup: `echo "old content" > f`, commits: commits,
		run: "node - <<'E'\nconst fs = require('fs');\n" + script + "\nE",
	}
}

// varying says which paths differ from run to run.
func (c toolCase) varying(paths string) toolCase {
	c.vary = paths
	return c
}
