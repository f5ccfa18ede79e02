package integration

// The shapes: HOW-TOOLS-WRITE of the specification lists how far up the common
// ancestor of reader and writer is in each.

// shellShapes are scripts, and what starts scripts.
var shellShapes = []shape{
	{name: "bash-redirect", run: `x=$(cat f); "$PAUSE"; echo "$x more" > f`},
	{name: "bash-read-builtin", run: `read -r x < f; "$PAUSE"; echo "$x more" > f`},
	{name: "bash-cmd-redirect", run: `x=$(cat f); "$PAUSE"; /bin/echo "$x more" > f`},
	{name: "bash-group", run: `x=$(cat f); "$PAUSE"; { echo "$x"; /bin/echo more; } > f`},
	{name: "jq-mv", needs: []string{"jq"}, run: `jq .n+=1 f > t && "$PAUSE" && mv t f`},
	{name: "jq-substitution", needs: []string{"jq"}, run: `x=$(jq .n+=1 f); "$PAUSE"; echo "$x" > f`},
	{name: "jq-pipe-substitution", needs: []string{"jq"}, run: `x=$(cat f | jq .n+=1 | tee /dev/null); "$PAUSE"; echo "$x" > f`},
	{name: "dash", needs: []string{"dash"}, run: `dash -c 'x=$(cat f); "$PAUSE"; echo "$x more" > f'`},
	{name: "dash-cmd-redirect", needs: []string{"dash"}, run: `dash -c 'x=$(cat f); "$PAUSE"; /bin/echo "$x more" > f'`},
	{name: "cron-like", run: `setsid --wait sh -c 'sed s/1/2/ f > t; "$PAUSE"; mv t f'`},
	{name: "two-scripts", run: `bash -c 'sed s/1/2/ f > t; true'; "$PAUSE"; bash -c 'mv t f; exit $?'`},
	{name: "remove-and-create", run: `x=$(cat f); "$PAUSE"; rm f && echo "$x more" > f`},
	{name: "remove-and-move", run: `x=$(cat f); echo "$x more" > t; "$PAUSE"; rm f && mv t f`},
	{name: "move-away", run: `sed s/1/2/ f > t; "$PAUSE"; mv f f.old && mv t f`},
	{name: "xargs", run: `echo f | xargs -P 2 -I{} sh -c 'cat {} > {}.t; "$PAUSE"; echo more >> {}.t; mv {}.t {}'`},
	{name: "timeout", run: `timeout 60 cat f > t; "$PAUSE"; echo more >> t; timeout 60 mv t f`},
	{name: "timeout-shell", run: `timeout 60 sh -c 'cat f > t; true'; "$PAUSE"; echo more >> t; timeout 60 sh -c 'mv t f; exit $?'`},
	{name: "nohup-nice-env", run: `nohup nice env cat f > t 2> /dev/null; "$PAUSE"; echo more >> t; nice env mv t f`},
	{name: "su", needs: []string{"su"}, root: true, run: `su root -c 'cat f > t'; "$PAUSE"; echo more >> t; su root -c 'mv t f; exit $?'`},
	{name: "make", needs: []string{"make"}, setup: `printf 'all:\n\tsed s/1/2/ f > t\n\t"$$PAUSE"\n\tmv t f\n' > Makefile`, run: `make`},
	{name: "make-shells", needs: []string{"make"}, setup: `printf 'all:\n\tsed s/1/2/ f > t; true\n\t"$$PAUSE"\n\tmv t f; exit $$?\n' > Makefile`, run: `make`},
}

// toolShapes are tools that replace files, each in its own way. Left out are those
// that read f themselves just before they replace it, which is the newest version
// then: rsync, patch, vim with backupcopy=yes.
var toolShapes = []shape{
	{name: "sponge", needs: []string{"sponge"}, run: `cat f | { cat > "$OUT/t"; "$PAUSE"; cat "$OUT/t"; echo more; } | sponge f`},
	{name: "tee", run: `cat f | { cat > "$OUT/t"; "$PAUSE"; cat "$OUT/t"; echo more; } | { x=$(cat); echo "$x" | tee f > /dev/null; }`},
	{name: "cp", run: `cat f > t; "$PAUSE"; echo more >> t; cp t f`},
	{name: "cp-f", run: `cat f > t; "$PAUSE"; echo more >> t; cp -f t f`},
	{name: "cp-remove", run: `cat f > t; "$PAUSE"; echo more >> t; cp --remove-destination t f`},
	{name: "ln-f", run: `cat f > t; "$PAUSE"; echo more >> t; ln -f t f`},
	{name: "install", run: `cat f > t; "$PAUSE"; echo more >> t; install t f`},
	{name: "tar", run: `tar cf "$OUT/a.tar" f; "$PAUSE"; echo changed > "$OUT/f"; tar rf "$OUT/a.tar" -C "$OUT" f; tar xf "$OUT/a.tar"`, quiet: true}, // it names what came of the refused unlink: EEXIST
	{name: "unzip", needs: []string{"zip", "unzip"}, setup: `mkdir z; echo changed > z/f; (cd z; zip -q ../a.zip f)`, run: `cat f; "$PAUSE"; unzip -oq a.zip`, quiet: true},
	{name: "gcc", needs: []string{"gcc"}, setup: cSource, run: `cat f; "$PAUSE"; gcc -o f a.c`, quiet: true},
	{name: "sort-o", setup: `seq 3 > other`, run: `cat f; "$PAUSE"; sort -r -o f other`},
	{name: "dd", run: `cat f > t; "$PAUSE"; echo more >> t; dd if=t of=f`},
	{name: "truncate", run: `cat f; "$PAUSE"; truncate -s 0 f`},
	{name: "shred-u", run: `cat f; "$PAUSE"; shred -u f`, quiet: true},
	// Under /tmp vim makes no backup by itself. It asks whether to overwrite the newer file.
	{name: "vim", needs: []string{"vim"}, quiet: true,
		run: `echo y | vim -es -u NONE -i NONE -N -c 'set backupskip=' -c 'call system($PAUSE)' -c '%s/1/2/' -c 'w!' -c 'qa!' f`},
	{name: "vim-backup", needs: []string{"vim"}, quiet: true,
		run: `echo y | vim -es -u NONE -i NONE -N -c 'set backupskip= backup' -c 'call system($PAUSE)' -c '%s/1/2/' -c 'w!' -c 'qa!' f`},
	{name: "vim-in-place", needs: []string{"vim"}, quiet: true,
		run: `echo y | vim -es -u NONE -i NONE -N -c 'set nobackup nowritebackup' -c 'call system($PAUSE)' -c '%s/1/2/' -c 'w!' -c 'qa!' f`},
	{name: "nvim", needs: []string{"nvim"}, quiet: true,
		run: `echo y | nvim -es -u NONE -i NONE -c 'set backupskip=' -c 'call system($PAUSE)' -c '%s/1/2/' -c 'w!' -c 'qa!' f`},
	{name: "emacs", needs: []string{"emacs"}, quiet: true,
		run: emacsOn + `'(progn (insert "x") (call-process (getenv "PAUSE")) (set-visited-file-modtime) (save-buffer))'`},
	{name: "nano", needs: []string{"nano", "python3"}, quiet: true, run: nanoPaused},
}

// nanoPaused types into nano, pauses, saves, says yes when asked, and tells
// whether nano wrote.
const nanoPaused = `"$PYTHON" - <<'E'
import os, pty, subprocess, sys
pid, fd = pty.fork()
if pid == 0: os.execvp("nano", ["nano", "-I", "f"])
seen = b""
def expect(*texts):
    global seen
    seen = b""
    while not any(t in seen for t in texts): seen += os.read(fd, 65536)
expect(b"GNU nano"); os.write(fd, b"typed ")
expect(b"Modified")
subprocess.run([os.environ["PAUSE"]])
os.write(fd, b"\x0f"); expect(b"File Name to Write"); os.write(fd, b"\r")
expect(b"Wrote", b"Error", b"busy", b"modified")
if b"modified" in seen:
    os.write(fd, b"y"); expect(b"Wrote", b"Error", b"busy")
wrote = b"Wrote" in seen
if not wrote: print(seen)
os.close(fd)
sys.exit(0 if wrote else 1)
E`

// programShapes are programs that read and write themselves, or have it done.
var programShapes = []shape{
	{name: "python", run: pythonShape(`d = open("f").read(); pause(); open("f", "w").write(d + "more")`)},
	{name: "python-rename", run: pythonShape(`d = open("f").read(); pause(); open("t", "w").write(d + "more"); os.replace("t", "f")`)},
	{name: "python-rename-prepared", run: pythonShape(`d = open("f").read(); open("t", "w").write(d + "more"); pause(); os.replace("t", "f")`)},
	{name: "python-wronly", run: pythonShape(`d = open("f").read(); pause()
fd = os.open("f", os.O_WRONLY); os.write(fd, b"xx"); os.close(fd)`)},
	{name: "python-reads-child-moves", run: pythonShape(`d = open("f").read(); open("t", "w").write(d + "more"); pause(); subprocess.run(["mv", "t", "f"], check=True)`)},
	{name: "python-shell-true", run: pythonShape(`subprocess.run("sed s/1/2/ f > t; true", shell=True, check=True); pause(); subprocess.run("mv t f; exit $?", shell=True, check=True)`)},
	{name: "python-child-reads", run: pythonShape(`d = subprocess.check_output(["cat", "f"]); pause(); open("f", "wb").write(d + b"more")`)},
	{name: "python-fork", run: pythonShape(`d = open("f").read(); pause()
if os.fork() == 0: open("f", "w").write(d + "more"); os._exit(0)
sys.exit(os.waitstatus_to_exitcode(os.wait()[1]))`)},
	{name: "python-thread", run: pythonShape(`import concurrent.futures as c
with c.ThreadPoolExecutor() as pool:
    d = pool.submit(lambda: open("f").read()).result(); pause()
with c.ThreadPoolExecutor() as pool: pool.submit(lambda: open("f", "w").write(d + "more")).result()`)},
	{name: "agent", run: pythonShape(`
for command in "cat f > t; true", '"$PAUSE"', "echo more >> t; mv t f; exit $?":
    subprocess.run(["bash", "-c", command], start_new_session=True, check=True)`)},
	{name: "agent-that-pipes", run: pythonShape(`
text = subprocess.run(["bash", "-c", "cat f; true"], start_new_session=True, check=True, capture_output=True, text=True).stdout
pause()
subprocess.run(["bash", "-c", "cat > f; exit $?"], start_new_session=True, check=True, text=True, input=text + "more")`)},
	{name: "node", needs: []string{"node"}, run: nodeShape(`const d = fs.readFileSync("f"); pause(); fs.writeFileSync("f", d + "more")`)},
	{name: "node-promises", needs: []string{"node"}, run: nodeShape(`fs.promises.readFile("f").then((d) => { pause(); return fs.promises.writeFile("f", d + "more") })`)},
	{name: "npm-run-like", needs: []string{"node"}, run: nodeShape(`execSync("cat f > t; true"); pause(); execSync("echo more >> t; mv t f; exit $?")`)},
	{name: "perl", needs: []string{"perl"}, run: `perl -e 'open F, "<", "f" or die; $d = <F>; close F; system $ENV{PAUSE}; open F, ">", "f" or die "$!\n"; print F $d, "more"; close F or die "$!\n"'`},
	{name: "perl-i", needs: []string{"perl"}, run: `perl -i -ne 'print "x$_"; system $ENV{PAUSE} if $. == 1' f`},
	{name: "awk-writes", run: `awk 'NR == 1 { x = $0 "more"; system(ENVIRON["PAUSE"]) } END { print x > "f"; if (close("f")) exit 1 }' f`, quiet: true},
}

// readerShapes are ways to read that are easily missed.
var readerShapes = []shape{
	{name: "mmap", run: pythonShape(`import mmap
fd = os.open("f", os.O_RDONLY); d = mmap.mmap(fd, 0, prot=mmap.PROT_READ)[:]; os.close(fd); pause(); open("f", "wb").write(d + b"more")`)},
	{name: "mmap-kept", run: pythonShape(`import mmap
fd = os.open("f", os.O_RDONLY); m = mmap.mmap(fd, 0, prot=mmap.PROT_READ); os.close(fd); pause(); d = m[:] + b"more"; m.close(); open("f", "wb").write(d)`)},
	{name: "sendfile", run: pythonShape(`a = os.open("f", os.O_RDONLY); b = os.open("t", os.O_WRONLY | os.O_CREAT, 0o644); os.sendfile(b, a, 0, 100); os.write(b, b"more"); os.close(b); pause(); os.rename("t", "f")`)},
	{name: "cp-out", run: `cp f t; "$PAUSE"; echo more >> t; mv t f`},
	{name: "hard-link", setup: `ln f g`, run: `cat g > t; "$PAUSE"; echo more >> t; cat t > f`},
	{name: "writes-hard-link", setup: `ln f g`, run: `cat f > t; "$PAUSE"; echo more >> t; cat t > g`},
	{name: "hard-link-renamed-over", setup: `ln f g`, run: `cat g > t; "$PAUSE"; echo more >> t; mv t f`},
	{name: "symlink", setup: `ln -s f l`, run: `cat l > t; "$PAUSE"; echo more >> t; mv t f`},
	{name: "writes-symlink", setup: `ln -s f l`, run: `cat f > t; "$PAUSE"; echo more >> t; cat t > l`},
	{name: "symlinked-directory", setup: `ln -s . here`, run: `cat here/f > t; "$PAUSE"; echo more >> t; mv t here/here/f`},
	{name: "other-spelling", run: `cat "$PWD/../${PWD##*/}/./f" > t; "$PAUSE"; echo more >> t; mv t f`},
	{name: "inherited-descriptor", run: `exec 3< f; cat <&3 > t; "$PAUSE"; echo more >> t; mv t f`},
	{name: "inherited-old-version", run: `exec 3< f; "$PAUSE"; cat <&3 > t; echo more >> t; mv t f`},
	{name: "read-write-handle", run: pythonShape(`d = open("f", "r+").read(); pause(); open("f", "w").write(d + "more")`)},
	{name: "second-save", run: pythonShape(`d = open("f").read(); open("f", "w").write(d + "1"); pause(); open("f", "w").write(d + "2")`)},
	{name: "second-save-renamed", run: `sed -i s/1/2/ f; "$PAUSE"; echo again > t; mv t f`},
}

// pythonShape is a Python script with pause().
func pythonShape(script string) string {
	return `exec "$PYTHON" - <<'E'
import os, subprocess, sys
def pause(): subprocess.run([os.environ["PAUSE"]], check=True)
` + script + "\nE"
}

// nodeShape is a node script with pause().
func nodeShape(script string) string {
	return `exec node - <<'E'
const fs = require('fs'), { execSync, execFileSync } = require('child_process')
const pause = () => execFileSync(process.env.PAUSE)
` + script + "\nE"
}
