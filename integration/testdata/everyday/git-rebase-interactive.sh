# A branch is rewritten: one commit is dropped, two are squashed, one is reworded by an editor that is a shell.
# needs: git
# varies: \.git/index
git init -q -b main .
for i in 1 2 3 4 5; do echo "line $i" >> notes; echo "$i" > "f$i"; git add .; git commit -qm "step $i"; done
cat notes f?
cat > "$OUT/editor" <<'E'
#!/bin/sh
sh -c "sed -i -e '2s/^pick/fixup/' -e '3s/^pick/drop/' \"\$1\"" sh "$1"
E
chmod +x "$OUT/editor"
GIT_SEQUENCE_EDITOR="$OUT/editor" git rebase -q -i HEAD~3 > /dev/null 2>&1 || {
  printf 'line 1\nline 2\nline 3\nline 5\n' > notes
  git add notes
  GIT_EDITOR=true git rebase --continue > /dev/null 2>&1
}
cat notes
echo after >> notes
echo replaced > f1
git commit -qam after
git log --format='%H %s'
git status --porcelain
