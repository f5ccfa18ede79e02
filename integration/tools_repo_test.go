package integration

import "slices"

// toolCases is the whole matrix.
func toolCases() []toolCase {
	return slices.Concat(shellCases, editCases, copyCases, codeCases, repoCases)
}

// repoCases are programs that keep many files or a database: version control,
// compilers, SQL.
var repoCases = []toolCase{
	{name: "git-init-commit", needs: []string{"git"}, run: gitInit + `
git status --porcelain; git fsck --strict; git log --format=%H; git ls-files -s`, commits: liveGit, vary: gitVaries},
	{name: "git-branch-checkout", needs: []string{"git"}, run: gitInit + `
git checkout -q -b side; echo side > a; git rm -q b; mkdir d; echo new > d/c; git add -A; git commit -qm side
git checkout -q main; cat a b; git checkout -q side; cat a d/c; ls
git merge-base main side; git checkout -q main; git merge -q --no-edit side; git status --porcelain; git fsck --strict; git log --format=%H`,
		commits: each(anyNumber), vary: gitVaries},
	{name: "git-rebase-stash", needs: []string{"git"}, run: gitInit + `
git checkout -q -b side; echo side > c; git add c; git commit -qm side; git checkout -q main; echo main > e; git add e; git commit -qm main2
git checkout -q side; git rebase -q main; echo dirty > c; git stash -q; cat c; git stash pop -q; cat c; git checkout -q -- c; git reset -q --hard HEAD~1; ls
git clean -fdxq; git status --porcelain; git fsck --strict --no-dangling; git log --format=%H`,
		commits: each(anyNumber), vary: gitVaries},
	{name: "git-gc", needs: []string{"git"}, run: gitInit + `
for i in 1 2 3 4 5 6 7 8; do echo $i > a; git commit -qam $i; done
git gc -q --prune=now; git repack -adq; git fsck --strict; git count-objects; git log --format=%H | head -3; git tag -a -m v v1; git pack-refs --all; git show-ref`,
		commits: each(anyNumber), vary: gitVaries},
	{name: "git-clone", needs: []string{"git"}, run: gitInit + `
git clone -q . copy; git -C copy log --format=%H; git clone -q --bare . bare.git; git -C copy fsck --strict
echo more >> copy/a; git -C copy commit -qam more; git -C copy push -q origin HEAD:refs/heads/pushed; git log --format=%H pushed; git worktree add -q wt pushed; cat wt/a; git worktree remove wt`,
		commits: each(anyNumber), vary: gitVaries + `|bare\.git/.*`},
	{name: "git-lock", needs: []string{"git"}, run: gitInit + `
: > .git/index.lock; echo x > a; git add a; echo "status $?"; rm .git/index.lock; git add a; git diff --cached --stat`,
		commits: each(anyNumber), vary: gitVaries},
	{name: "git-apply", setup: `seq 10 > f; seq 10 | sed s/5/five/ > g; git diff --no-index f g > p || true; sed -i s,b/g,b/f, p`, needs: []string{"git"},
		run: `git apply p; cat f | head -5`, commits: one("f")},

	{name: "sqlite", needs: []string{"sqlite3"}, setup: `sqlite3 t.db 'create table t(x)'`,
		run: `sqlite3 t.db 'insert into t values (1),(2); select sum(x) from t; pragma integrity_check'`, vary: `.*\.db.*`},
	{name: "sqlite-select", needs: []string{"sqlite3"}, setup: `sqlite3 t.db 'create table t(x); insert into t values(7)'`,
		run: `sqlite3 t.db 'select x from t'`},
	{name: "sqlite-8-writers", needs: []string{"sqlite3"}, setup: `sqlite3 t.db 'create table t(w, i)'`, run: sqliteWriters("t.db"), vary: `.*\.db.*`},
	{name: "sqlite-8-writers-wal", needs: []string{"sqlite3"}, setup: `sqlite3 t.db 'pragma journal_mode=wal; create table t(w, i)' >/dev/null`,
		run: sqliteWriters("t.db"), vary: `.*\.db.*`},
	{name: "sqlite-unforeseen-name", needs: []string{"sqlite3"}, setup: `sqlite3 store.data 'create table t(w, i)'`,
		run:  `sqlite3 store.data 'insert into t values (1, 2); insert into t values (3, 4); select sum(i) from t; pragma integrity_check'`,
		vary: `store.*`, commits: each(anyNumber)},
	{name: "sqlite-8-writers-unforeseen-name", needs: []string{"sqlite3"}, setup: `sqlite3 store.data 'create table t(w, i)'`,
		run: sqliteWriters("store.data"), vary: `store.*`, commits: each(anyNumber)},
	{name: "sqlite-dump", needs: []string{"sqlite3"}, setup: `sqlite3 t.db 'create table t(x); insert into t values(7)'`,
		run:  `sqlite3 t.db .dump > f; sqlite3 n.db < f; sqlite3 n.db 'select x from t'; sqlite3 t.db 'vacuum into "v.db"'`,
		vary: `.*\.db.*`, commits: one("f")},

	{name: "gcc", needs: []string{"gcc"}, setup: cSource, run: `gcc -o a a.c && ./a; gcc -c a.c; gcc -o a a.o && ./a`, commits: map[string]int{"a": anyNumber, "a.o": anyNumber}, vary: `a`},
	{name: "gcc-over", needs: []string{"gcc"}, setup: cSource + `; echo old > a`, run: `gcc -o a a.c && ./a`, commits: one("a"), vary: `a`},
	{name: "ar-strip", needs: []string{"gcc", "ar", "strip"}, setup: cSource, run: `gcc -c a.c && ar rcsD l.a a.o && ar t l.a && strip -g a.o && gcc -o a a.o && strip a && ./a`,
		commits: map[string]int{"*": anyNumber, "a.c": 0}, vary: `a`},
	{name: "make", needs: []string{"make", "gcc"}, setup: cSource + `; printf 'a: a.o\n\tgcc -o $@ $<\na.o: a.c\n\tgcc -c $<\nclean:\n\trm -f a a.o\n' > Makefile`,
		run: `make && ./a && make && make clean && ls && make -j2 -s && ./a`, commits: map[string]int{"a": 2, "a.o": 2}, vary: `a`},
	{name: "make-text", needs: []string{"make"}, setup: `printf 'all: o1 o2 o3 sum\no%%: i\n\tsed s/x/$@/ $< > $@\nsum: o1 o2 o3\n\tcat $^ > $@\n' > Makefile; echo x > i`,
		run: `make -j4 -s; cat sum`, commits: map[string]int{"o1": 1, "o2": 1, "o3": 1, "sum": 1}},
	{name: "npm-init", needs: []string{"npm"}, run: npmQuiet + `npm init -y > /dev/null && node -p 'require("./package.json").version' && npm pkg set name=x && npm pkg get name`,
		commits: map[string]int{"package.json": anyNumber}, vary: `package\.json`},
	{name: "npm-install", setup: `mkdir dep; echo '{"name":"dep","version":"1.0.0","main":"i.js"}' > dep/package.json; echo 'module.exports = "here"' > dep/i.js`,
		needs: []string{"npm"}, run: npmQuiet + `npm init -y > /dev/null && npm install --install-links ./dep > /dev/null && node -p 'require("dep")' &&
echo 'module.exports = "again"' > dep/i.js && npm pack ./dep > /dev/null && npm install dep-1.0.0.tgz > /dev/null && node -p 'require("dep")' && npm ls --parseable | wc -l && npm uninstall dep > /dev/null && ls node_modules`,
		commits: map[string]int{"*": anyNumber, "dep/package.json": 0}, vary: `package(-lock)?\.json|.*\.tgz|node_modules/\.package-lock\.json`},
}

// liveGit: what lies below .git is live, so only the work tree has versions.
var liveGit = map[string]int{"a": 1, "b": 1}

const (
	gitInit = `git init -q -b main . && echo one > a && echo two > b && git add . && git commit -qm first || exit 1`
	// Objects and refs are the same on every run; the index holds inode numbers
	// and times, logs and packs hold times.
	gitVaries = `(copy/|wt/)?\.git/(index|logs/.*|objects/pack/.*|objects/info/.*|info/refs|worktrees/.*|COMMIT_EDITMSG|ORIG_HEAD|config|gc\.pid|hooks/.*)`

	// npm keeps its cache outside, and asks nobody for anything.
	npmQuiet = `export npm_config_update_notifier=false npm_config_fund=false npm_config_audit=false npm_config_offline=true npm_config_cache="$(mktemp -d)"; `

	cSource = `printf '#include <stdio.h>\nint main(void) { puts("compiled"); return 0; }\n' > a.c`
)

// sqliteWriters lets 8 processes insert 10 rows each, a transaction for each row.
func sqliteWriters(db string) string {
	return `for w in 1 2 3 4 5 6 7 8; do
  ( for i in 1 2 3 4 5 6 7 8 9 10; do echo "insert into t values ($w, $i);"; done | sqlite3 -cmd '.timeout 30000' ` + db + ` || echo "writer $w failed" ) &
done; wait
sqlite3 ` + db + ` 'select w, count(*), sum(i) from t group by w; pragma integrity_check'`
}
