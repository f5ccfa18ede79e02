package integration

// editCases are editors, filters that edit in place, and filters beside which
// people rename.
var editCases = []toolCase{
	{name: "sed-i", setup: `echo old line > f; chmod 640 f`, run: `sed -i s/old/new/ f`, commits: one("f")},
	{name: "sed-i-backup", setup: `echo old line > f`, run: `sed -i.bak s/old/new/ f`, commits: map[string]int{"f": 1, "f.bak": anyNumber}},
	{name: "sed-i-nothing-to-do", setup: `echo old line > f`, run: `sed -i s/xyz/abc/ f`, commits: one("f")},
	{name: "sed-i-many", setup: `for i in 1 2 3 4 5; do echo old > f$i; done`, run: `sed -i s/old/new/ f*`, commits: each(1)},
	{name: "sed-i-symlink", setup: `echo old > f; ln -s f l`, run: `sed -i --follow-symlinks s/old/new/ l`, commits: one("f")},
	{name: "sed-w", setup: `seq 5 > in`, run: `sed -n 'w f' in`, commits: one("f")},
	{name: "perl-i", setup: `echo old line > f; chmod 640 f`, needs: []string{"perl"}, run: `perl -i -pe s/old/new/ f`, commits: one("f")},
	{name: "perl-i-backup", setup: `echo old line > f`, needs: []string{"perl"}, run: `perl -i.bak -pe s/old/new/ f`,
		commits: map[string]int{"f": 1, "f.bak": anyNumber}},
	{name: "gawk-i", setup: `echo old line > f`, needs: []string{"gawk"}, run: `gawk -i inplace '{sub("old","new");print}' f`, commits: one("f")},
	{name: "awk-print", setup: `seq 4 > in`, run: `awk '{print $1*2 > "f"}' in`, commits: one("f")},
	{name: "awk-mv", setup: `seq 4 > f`, run: `awk '{print $1*2}' f > t && mv t f`, commits: one("f")},
	{name: "jq-mv", setup: `echo '{"a":1}' > f`, needs: []string{"jq"}, run: `jq .a+=1 f > t && mv t f`, commits: one("f")},
	{name: "jq-mv-f", setup: `echo '{"a":1}' > f`, needs: []string{"jq"}, run: `jq .a+=1 f > t && mv -f t f`, commits: one("f")},
	{name: "jq-fails", setup: `echo '{"a":' > f`, needs: []string{"jq"}, run: `jq . f > t && mv t f`, commits: one("t")},
	{name: "sponge", setup: `printf 'b\na\n' > f`, needs: []string{"sponge"}, run: `sort f | sponge f`, commits: one("f")},
	{name: "sponge-append", setup: `printf 'b\na\n' > f`, needs: []string{"sponge"}, run: `sort f | sponge -a f`, commits: each(anyNumber)},
	{name: "sort-o-itself", setup: `printf 'b\na\nc\n' > f`, run: `sort -o f f`, commits: one("f")},
	{name: "sort-o-new", setup: `printf 'b\na\nc\n' > f`, run: `sort -o g f`, commits: one("g")},
	{name: "iconv-o", setup: `echo abc > f`, needs: []string{"iconv"}, run: `iconv -f latin1 -t utf8 -o g f`, commits: one("g")},
	{name: "uniq-out", setup: `printf 'a\na\nb\n' > f; echo old > g`, run: `uniq f g`, commits: one("g")},
	{name: "split", setup: `seq 100 > in`, run: `split -l 30 in part.`, commits: map[string]int{"*": 1, "in": 0}},
	{name: "csplit", setup: `seq 30 > in`, run: `csplit -s in 10 20`, commits: map[string]int{"*": 1, "in": 0}},
	{name: "ed", setup: `echo old > f`, needs: []string{"ed"}, run: `printf 's/old/new/\nw\nq\n' | ed -s f`, commits: one("f")},
	{name: "vim", setup: `echo old > f; chmod 640 f`, needs: []string{"vim"}, run: vimDo, commits: one("f")},
	{name: "vim-new-file", needs: []string{"vim"}, run: `vim -es -u NONE -i NONE -N -c 'normal itext' -c wq f < /dev/null`, commits: one("f")},
	{name: "vim-no-change", setup: `echo old > f`, needs: []string{"vim"}, run: `vim -es -u NONE -i NONE -N -c q f < /dev/null`},
	{name: "vim-backup-kept", setup: `echo old > f`, needs: []string{"vim"},
		run: `vim -es -u NONE -i NONE -N -c 'set backup' -c '%s/old/new/' -c wq f < /dev/null`, commits: map[string]int{"f": 1, "f~": anyNumber}},
	{name: "vim-in-place", setup: `echo old > f`, needs: []string{"vim"},
		run: `vim -es -u NONE -i NONE -N -c 'set backupcopy=yes' -c '%s/old/new/' -c wq f < /dev/null`, commits: one("f")},
	{name: "vim-hard-link", setup: `echo old > f; ln f g`, needs: []string{"vim"}, run: vimDo + `; cat g`,
		commits: map[string]int{"f": 1, "g": anyNumber}},
	{name: "vim-symlink", setup: `mkdir d; echo old > d/f; ln -s d/f f`, needs: []string{"vim"}, run: vimDo, commits: one("d/f")},
	{name: "vim-read-only", setup: `echo old > f; chmod 444 f`, needs: []string{"vim"},
		run: `vim -es -u NONE -i NONE -N -c '%s/old/new/' -c 'wq!' f < /dev/null`, commits: one("f")},
	{name: "vim-swap-file", setup: `echo old > f`, needs: []string{"vim"},
		run: `vim -es -u NONE -i NONE -N -c 'set updatecount=1 swapfile' -c '%s/old/new/' -c preserve -c wq f < /dev/null`, commits: one("f")},
	{name: "vim-twice", setup: `echo old > f`, needs: []string{"vim"},
		run: `vim -es -u NONE -i NONE -N -c '%s/old/new/' -c w -c '%s/new/newer/' -c wq f < /dev/null`, commits: map[string]int{"f": 2}},
	{name: "nvim", setup: `echo old > f`, needs: []string{"nvim"}, run: `nvim -es -u NONE -i NONE -c '%s/old/new/' -c wq f < /dev/null`, commits: one("f")},
	{name: "nvim-backup-kept", setup: `echo old > f`, needs: []string{"nvim"},
		run: `nvim -es -u NONE -i NONE -c 'set backup backupskip=' -c '%s/old/new/' -c wq f < /dev/null; cat f~`, commits: map[string]int{"f": 1, "f~": anyNumber}},
	{name: "emacs", setup: `echo old > f; chmod 640 f`, needs: []string{"emacs"}, run: emacsDo + `; cat f~`, commits: map[string]int{"f": 1, "f~": anyNumber}},
	{name: "emacs-new-file", needs: []string{"emacs"}, run: emacsOn + `'(progn (insert "text") (save-buffer))' 2> /dev/null`, commits: one("f")},
	{name: "emacs-copying", setup: `echo old > f; ln f g`, needs: []string{"emacs"},
		run: emacsOn + `'(progn (setq backup-by-copying t) (insert "new") (save-buffer))' 2> /dev/null; cat f~ g`, commits: map[string]int{"*": anyNumber}},
	{name: "emacs-precious", setup: `echo old > f`, needs: []string{"emacs"},
		run: emacsOn + `'(progn (setq file-precious-flag t) (insert "new") (save-buffer))' 2> /dev/null; cat f~`, commits: map[string]int{"*": anyNumber, "f": 1}},
	{name: "emacs-twice", setup: `echo old > f`, needs: []string{"emacs"},
		run: emacsOn + `'(progn (insert "a") (save-buffer) (insert "b") (save-buffer))' 2> /dev/null`, commits: map[string]int{"f": 2, "f~": anyNumber}},
	{name: "nano", setup: `echo old > f`, needs: []string{"nano", "python3"}, run: nanoDo, commits: one("f")},
	{name: "patch", setup: `seq 10 > f; seq 10 | sed s/5/five/ > g; diff -u --label f --label f f g > p || true`, needs: []string{"patch"},
		run: `patch -s f < p`, commits: one("f")},
	{name: "patch-backup", setup: `seq 10 > f; seq 10 | sed s/5/five/ > g; diff -u --label f --label f f g > p || true`, needs: []string{"patch"},
		run: `patch -s -b f < p`, commits: map[string]int{"f": 1, "f.orig": anyNumber}},
	{name: "patch-rejected", setup: `seq 10 > f; printf -- '--- f\n+++ f\n@@ -1,2 +1,2 @@\n-x\n+y\n z\n' > p`, needs: []string{"patch"},
		run: `patch -s -f f p`, commits: map[string]int{"*": anyNumber, "f": 0}},
	{name: "diff-redirect", setup: `seq 10 > f; seq 11 > g; echo old > p`, run: `diff -u --label f --label g f g > p`, commits: one("p")},
	{name: "openssl-out", setup: `echo text > f; echo old > g`, needs: []string{"openssl"}, run: `openssl base64 -in f -out g`, commits: one("g")},
	{name: "curl-o", setup: `echo text > f; echo old > g`, needs: []string{"curl"}, run: `curl -s -o g "file://$PWD/f"`, commits: one("g")},
}

// emacsOn evaluates an expression with f in its buffer. Below /tmp emacs makes no
// backups by itself.
const emacsOn = `emacs --batch -Q --eval '(setq backup-enable-predicate (lambda (_) t))' f --eval `

const emacsDo = emacsOn + `'(progn (while (search-forward "old" nil t) (replace-match "new")) (save-buffer))' 2> /dev/null`

const vimDo = `vim -es -u NONE -i NONE -N -c '%s/old/new/' -c wq f < /dev/null`

// nanoDo types into nano on a terminal: each key waits for what it makes nano say.
const nanoDo = `"$PYTHON" - <<'E'
import os, pty
pid, fd = pty.fork()
if pid == 0: os.execvp("nano", ["nano", "-I", "f"])
def expect(text):
    seen = b""
    while text not in seen: seen += os.read(fd, 65536)
for text, keys in (b"GNU nano", b"typed "), (b"Modified", b"\x0f"), (b"File Name to Write", b"\r"), (b"Wrote", b"\x18"):
    expect(text); os.write(fd, keys)
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
E`
