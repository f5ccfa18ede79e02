package integration

// quietShell are shells and the small tools that change files.
var quietShell = []quietCase{
	{name: "redirections", run: `for i in 1 2 3; do echo $i > f; cat f; echo more >> f; sed -i s/more/less/ f; grep less f; done; is f $'3\nless'`},
	{name: "read-and-redirect", setup: `echo 0 > f`, run: `for i in 1 2 3 4; do x=$(cat f); echo $((x + 1)) > f; done; is f 4`},
	{name: "read-and-mv", setup: `echo 0 > f`, run: `for i in 1 2 3 4; do awk '{print $1 + 1}' f > t && mv t f; done; is f 4`},
	{name: "jq", needs: []string{"jq"}, setup: `echo '{"n":0}' > f`,
		run: `for i in 1 2 3 4; do jq -c .n+=1 f > t && mv t f; x=$(jq -c .n+=1 f); echo "$x" > f; done; is f '{"n":8}'`},
	{name: "filters-in-place", needs: []string{"sponge", "ed", "perl", "gawk"}, setup: `printf 'b\na\n' > f`,
		run: `for i in 1 2 3; do
  sort -o f f; sort -r f | sponge f; printf '1m$\nw\nq\n' | ed -s f; perl -i -pe 's/$/p/' f; perl -i.bak -pe 's/$/q/' f
  gawk -i inplace '{print $0 "g"}' f; sed -i.old 's/$/s/' f; tac f | tee t > /dev/null; cat t | tee f > /dev/null; truncate -s -0 f; dd if=t of=f 2> /dev/null
done; grep -c . f`},
	{name: "copies", setup: `echo one > g; echo two > h; echo old > f`,
		run: `for i in 1 2; do
  for s in g h; do cp $s f; cat f; cp -f $s f; cp -p $s f; cp --remove-destination $s f; cat f; install -m 644 $s f; cat f; cp $s t; mv t f; cat f; cp -a $s l2; done
done; is f two`},
	{name: "archives", needs: []string{"zip", "unzip"}, setup: `mkdir d; seq 50 > d/a; seq 60 > d/b; tar cf a.tar d; zip -qr a.zip d`,
		run: `for i in 1 2; do tar xf a.tar; cat d/a d/b | wc -l; unzip -oq a.zip; sed -i s/1/one/ d/a; tar xf a.tar; tar xf a.tar --overwrite; tar cf a.tar d; rm a.zip; zip -qr a.zip d; zip -qu a.zip d/a || [ $? = 12 ]; done`},
	{name: "patch", needs: []string{"patch"}, setup: `seq 10 > f; seq 10 | sed s/5/five/ > g; diff -u --label f --label f f g > p || true`,
		run: `for i in 1 2 3; do patch -s f < p; grep five f; patch -sR f < p; patch -s -b f < p; patch -sR f < p; done`},
	{name: "rsync", needs: []string{"rsync"}, setup: `mkdir s d; seq 50 > s/a; seq 60 > s/b`,
		run: `for i in 1 2; do rsync -a s/ d/; cat d/*; echo $i >> s/a; rsync -a s/ d/; sed -i 1d d/b; rsync -aI --inplace s/ d/; rsync -a --delete-before s/ d/; done; cmp s/a d/a`},
	{name: "hard-link-over", setup: `echo one > g; echo two > h`, run: `for i in 1 2; do for s in g h; do cat $s; ln -f $s l; cat l; done; done; rm l; cp g l; cat l; is l one`},
	{name: "own-backup", setup: `echo original > f`,
		run: `for i in 1 2; do
  cp f f.bak; sed -i s/original/changed/ f; is f changed; mv f.bak f; is f original
  cp -p f f.bak; echo other > f; cp f.bak f; rm f.bak; is f original
done`},
	{name: "own-backup-linked", setup: `echo original > f`, run: `for i in 1 2; do ln f f.bak; sed -i s/original/changed/ f; mv f.bak f; is f original; done`},
	{name: "own-backup-moved", setup: `echo original > f`, run: `for i in 1 2; do cat f; mv f f.bak; echo new > f; cat f; mv f.bak f; is f original; done`},
	{name: "own-backup-in-python", setup: `echo original > f`, run: `"$PYTHON" - <<'E'
import os, shutil
for i in range(2):
    shutil.copy2("f", "f.bak"); d = open("f").read(); open("f", "w").write(d.upper())
    assert open("f").read() == "ORIGINAL\n"
    os.replace("f.bak", "f"); assert open("f").read() == "original\n"
    os.rename("f", "f.old"); open("f", "w").write("new"); os.replace("f.old", "f"); assert open("f").read() == "original\n"
E`},
	{name: "tools-backups", needs: []string{"perl", "patch"}, setup: `seq 9 > f; seq 9 > orig; seq 9 | sed s/5/five/ > g; diff -u --label f --label f f g > p || true`,
		run: `for i in 1 2; do
  sed -i.bak s/3/three/ f; cat f; mv f.bak f; cmp f orig; perl -i.bak -pe s/3/three/ f; mv f.bak f; cmp f orig; patch -s -b f < p; mv f.orig f; cmp f orig
  cp -b g f; cat f; mv f~ f; cmp f orig; cp g t; mv -b t f; mv f~ f; cmp f orig; install -b -m 644 g f; mv f~ f; cmp f orig
done`},
	{name: "directory-replaced", setup: `mkdir d; echo one > d/f`, run: `for i in 1 2; do
  cat d/f; cp -a d e; echo $i > e/f; mv d d.old; mv e d; echo three > d/f; is d/f three; rm -r d; mv d.old d; echo four > d/f; mv d e; mkdir d; mv e/f d/f; echo five > d/f; rmdir e
done`},
	{name: "descriptors", setup: `echo 0 > f`, run: `exec 3<> f; read -r x <&3; sh -c 'cat f'; exec 3>&-; echo 1 > f; { read -r x; echo $((x + 1)) > f; } < f; exec 4< f; echo 3 > f; cat <&4; echo 4 > f; exec 4<&-; is f 4
diff <(cat f) <(echo 4); (exec 5> f; echo 5 >&5; sh -c 'echo 6 >&5'); is f $'5\n6'; echo 7 > f`},
	{name: "edits-of-a-copy", setup: `echo 1 > f`, run: `for i in 1 2 3; do cp f "$OUT/x"; sed -i 's/$/1/' "$OUT/x"; cmp -s f "$OUT/x" || cp "$OUT/x" f; done; is f 1111`},
	{name: "delete-and-recreate", setup: `echo old > f`, run: `for i in 1 2 3; do cat f; rm f; echo $i > f; cat f; mv f g; echo again > f; rm f; mv g f; done; is f 3`},
	{name: "swap-names", setup: `echo a > a; echo b > b`, run: `cat a b; for i in 1 2 3; do mv a t; mv b a; mv t b; cat a b; done; echo new > a; echo new > b; is a new`},
	{name: "log-rotation", setup: `echo start > app.txt`,
		run: `for i in 1 2 3; do
  echo line >> app.txt; tail -n 1 app.txt; [ ! -e app.txt.1 ] || mv app.txt.1 app.txt.2; mv app.txt app.txt.1; : > app.txt; gzip -c app.txt.1 > app.txt.1.gz
  echo line >> app.txt; cp app.txt copy.$i; truncate -s 0 app.txt; echo line >> app.txt; cat app.txt
done`},
	{name: "subshells", setup: `echo 0 > f`,
		run: `x=$(cat f); (echo $((x + 1)) > f); x=$(cat f); bash -c "echo $((x + 1)) > f"; x=$(cat f); { echo $((x + 1)); } > f; is f 3
x=$(bash -c 'sh -c "cat f"'); echo $((x + 1)) > f; (sed -i s/4/5/ f); echo 6 > f; { sh -c 'echo 7 > t; mv t f'; }; rm f; echo 8 > f; is f 8`},
	{name: "parent-and-children", setup: `echo 0 > f`,
		run: `cat f; sh -c 'echo child > f'; echo parent > f; sh -c 'cat f; sh -c "echo grandchild > f"; echo child > f'; sed -i s/child/x/ f; (cat f; echo y > f) & wait; echo z > f; is f z`},
	{name: "background-status", setup: `echo none > status`,
		run: `cat status; (for i in 1 2 3 4 5; do echo $i > status; done) & for i in 1 2 3; do cat status; done; wait; echo over > status; rm status`},
	{name: "xargs", needs: []string{"jq"}, setup: `for i in 1 2 3 4 5 6 7 8; do echo '{"n":0}' > c$i; done`,
		run: `for r in 1 2 3; do ls c? | xargs -P4 -I{} sh -c 'jq -c .n+=1 {} > {}.t && mv {}.t {}'; done
ls c? | xargs sed -i s/3/4/; find . -name 'c?' -exec sed -i s/4/5/ {} +; grep -l 5 c? | xargs -n1 -P4 perl -i -pe s/5/6/; for i in 1 8; do is c$i '{"n":6}'; done; grep -rl n . | xargs rm`},
	{name: "flock", setup: `echo 0 > f`, run: `for i in 1 2 3; do
  flock f sh -c 'x=$(cat f); echo $((x + 1)) > f'; flock f -c 'awk "{print \$1 + 1}" f > t && mv t f'; ( flock 9; x=$(cat f); echo $((x + 1)) > f ) 9< f
done; is f 9`},
	{name: "flock-parallel", setup: `echo 0 > f`, run: `for i in 1 2 3 4; do flock guard sh -c 'x=$(cat f); echo $((x + 1)) > f' & done; wait; is f 4`},
	{name: "script-that-replaces-itself", setup: `printf 'sed s/v1/v2/ self > t; mv t self\n# v1\n' > self`, run: `bash self; grep v2 self; bash self; echo new > self; is self new`},
	{name: "links-and-directories", setup: `mkdir d1; echo one > d1/f; ln -s d1 current; ln -s d1/f l`,
		run: `cat current/f; cp -r d1 d2; echo two > d2/f; ln -sfn d2 current; cat current/f; echo three > current/f; is d2/f three
cat l; echo four > l; is d1/f four; mv d1 d3; mv d2 d1; cat l; echo five > l; sed -i --follow-symlinks s/five/six/ l; is d1/f six; rm -r d1 d3`},
}

// quietPrograms are editors and interpreters.
var quietPrograms = []quietCase{
	{name: "vim", needs: []string{"vim"}, setup: `echo old > f`, run: `for i in 1 2 3; do
  vim -es -u NONE -i NONE -N -c 'set backupskip=' -c '%s/$/a/' -c wq f < /dev/null; cat f
  vim -es -u NONE -i NONE -N -c '%s/$/b/|w' -c '%s/$/c/|w' -c 'set backupcopy=yes' -c '%s/$/d/|w' -c 'set nobackup nowritebackup' -c '%s/$/e/' -c wq f < /dev/null
done; is f oldabcdeabcdeabcde`},
	{name: "vim-left-open", needs: []string{"vim"}, setup: `echo old > f`,
		run: `vim -es -u NONE -i NONE -N -c '%s/$/a/|w' -c 'let x = system("cat f; cat f > g; mv g h")' -c 'sleep 200m' -c '%s/$/b/|w' -c '%!cat f' -c w -c 'edit!' -c '%s/$/c/' -c wq f < /dev/null; is f oldabc`},
	{name: "nano", needs: []string{"nano", "python3"}, setup: `echo old > f`, run: `for i in 1 2; do ` + nanoDo + "\ncat f; done"},
	{name: "nvim", needs: []string{"nvim"}, setup: `echo old > f`, run: `for i in 1 2; do nvim -es -u NONE -i NONE -c '%s/old/new/' -c w -c '%s/new/old/' -c wq f < /dev/null; cat f; done`},
	{name: "emacs", needs: []string{"emacs"}, setup: `echo old > f`,
		run: `for i in 1 2; do ` + emacsOn + `'(progn (insert "x") (save-buffer) (insert "y") (save-buffer))'; cat f; done`},
	{name: "python", setup: `echo 0 > f`, run: `"$PYTHON" - <<'E'
import json, os, pathlib, subprocess, tempfile
def value(): return int(open("f").read())
for i in range(3):
    n = value(); open("f", "w").write(str(n + 1))
    n = value(); pathlib.Path("t").write_text(str(n + 1)); os.replace("t", "f")
    with open("f", "r+") as f: n = int(f.read()); f.seek(0); f.write(str(n + 1)); f.truncate()
    n = int(subprocess.check_output(["cat", "f"])); open("f", "w").write(str(n + 1))
    n = value(); subprocess.run(["sh", "-c", f"echo {n + 1} > f"], check=True)
    subprocess.run("awk '{print $1 + 1}' f > t && mv t f", shell=True, check=True)
    n = value(); open("t", "w").write(str(n + 1)); subprocess.run(["mv", "t", "f"], check=True)
    n = value(); os.unlink("f"); open("f", "x").write(str(n + 1))
    if os.fork() == 0: open("f", "w").write(str(value() + 1)); os._exit(0)
    os.wait(); open("f", "w").write(str(n + 2))
assert value() == 27, value()
E`},
	{name: "python-pool", setup: `for i in 1 2 3 4; do echo 0 > f$i; done`, run: `"$PYTHON" - <<'E'
import multiprocessing
def step(name):
    n = int(open(name).read()); open(name, "w").write(str(n + 1))
if __name__ == "__main__":
    names = [f"f{i}" for i in range(1, 5)]
    with multiprocessing.get_context("fork").Pool(2) as pool:
        for _ in range(4): pool.map(step, names)
    for n in names: open(n, "a").write("\n"); assert open(n).read() == "4\n"; open(n, "w").write("0")
E`},
	{name: "node", needs: []string{"node"}, setup: `echo '{"name":"x","version":"1.0.0","n":0}' > package.json`, run: `node - <<'E'
const fs = require('fs'), { execSync } = require('child_process')
const read = () => JSON.parse(fs.readFileSync('package.json', 'utf8'))
fs.writeFileSync('bump.js', 'const fs=require("fs");const p=JSON.parse(fs.readFileSync("package.json"));p.n+=1;fs.writeFileSync("package.json",JSON.stringify(p))')
let p = read()
for (let i = 0; i < 2; i++) {
  execSync('node bump.js')
  p = read(); p.n += 1; fs.writeFileSync('package.json', JSON.stringify(p))
  execSync('sh -c "node bump.js; true"')
  p = read(); p.n += 1; fs.writeFileSync('t', JSON.stringify(p)); fs.renameSync('t', 'package.json')
}
if (read().n !== 8) throw new Error('n is ' + read().n)
fs.promises.readFile('package.json').then((d) => fs.promises.writeFile('package.json', d)).then(() => fs.unlinkSync('package.json'))
E`},
	{name: "npm", needs: []string{"npm"}, setup: `printf '{"name":"x","version":"1.0.0","scripts":{"prego":"node step.js","go":"node step.js && sh -c \\"sed -i s/x/y/ out\\"","postgo":"node step.js"}}\n' > package.json
printf 'const fs = require("fs"); let s = ""; try { s = fs.readFileSync("out", "utf8") } catch {}; fs.writeFileSync("out", s + "x")\n' > step.js`,
		run: `export npm_config_update_notifier=false npm_config_cache=$OUT/cache
npm pkg set description=one; npm run --silent go; npm version --no-git-tag-version patch > /dev/null; npm pkg set description=two; npm run --silent go; is out yyxxxx || is out yxxyxx || cat out; npm pkg get version`},
}

// quietTrees are programs that work on many files at once.
var quietTrees = []quietCase{
	{
		// GNU tar makes what has attributes by mknod(2), and opens it then.
		name: "tar-attributes", needs: []string{"tar", "python3"},
		setup: "mkdir d; echo one > d/a; echo two > d/b",
		run: `tail -n +1 d/* > "$OUT/before"
python3 -c 'import os; os.setxattr("d/a", "user.k", b"1"); os.setxattr("d/b", "user.k", b"2")'
tar --xattrs -cf "$OUT/t.tar" d
tar --xattrs --xattrs-include='*' -xf "$OUT/t.tar"
is d/a one; is d/b two
python3 -c '
import os
open("d/a").read(); os.unlink("d/a"); os.mknod("d/a", 0o100644)
with open("d/a", "r+") as f: f.write("three")
os.unlink("d/b"); os.mknod("d/b", 0o100644); os.rename("d/b", "d/a"); open("d/a", "w").write("four")'
is d/a four`,
	},
	{name: "git", needs: []string{"git"}, run: gitInit + `
echo more >> a; git diff | cat; git commit -qam second; git checkout -q -b side; echo side > b; git commit -qam side; cat b
git checkout -q main; cat b; echo main >> a; git commit -qam third; git merge -q --no-edit side; cat a b
git checkout -q -b topic HEAD~1; echo topic > c; git add c; git commit -qm topic; git rebase -q main; cat c
echo dirty > c; cat c; git stash -q; cat c; git stash pop -q; is c dirty; git checkout -q -- c; is c topic; git reset -q --hard HEAD~1; git checkout -q main
git apply <<'E'
--- a/b
+++ b/b
@@ -1 +1 @@
-side
+applied
E
is b applied; git checkout -q b; git revert --no-commit HEAD~1; git reset -q --hard; git status --porcelain; git fsck --strict --no-dangling`},
	{name: "make", needs: []string{"make", "gcc"}, setup: cSource + `; cp a.c b.c; printf 'all: a b sum\na b: %%: %%.o\n\tgcc -o $@ $<\n%%.o: %%.c\n\tgcc -c $<\nsum: a b\n\tcat $^ > sum.t\n\tmv sum.t $@\n\techo >> $@\nclean:\n\trm -f a b *.o sum\n' > Makefile`,
		run: `for i in 1 2 3; do make -s -j2; ./a; ./b; sed -i s/compiled/compiled$i/ a.c; make -s -j2; ./a; touch b.c; make -s -j2; done; make -s clean; make -s -j2; ./a`},
	{name: "make-recursive", needs: []string{"make"}, setup: `mkdir d; echo 0 > d/n; printf 'all:\n\tcat d/n\n\t$(MAKE) -s -C d\n\tcat d/n\n\tsed -i s/1/0/ d/n\n' > Makefile; printf 'all:\n\tcat n\n\techo 1 > n.t\n\tmv n.t n\n' > d/Makefile`,
		run: `make -s; make -s; make -s; is d/n 0`},
	{name: "compiler-over", needs: []string{"gcc"}, setup: cSource, run: `for i in 1 2 3; do gcc -o a a.c; ./a; cat a | wc -c; strip a; ./a; done`},
}
