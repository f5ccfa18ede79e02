# Programs that call an editor on a file of theirs: crontab -e, visudo, git commit.
# needs: git
# varies: \.git/index
cat > "$OUT/editor" <<'E'
#!/bin/bash
bash -c "sh -c 'sed -i s/draft/final/ \"$1\"; true'; true"
echo edited >> "$1"
E
chmod +x "$OUT/editor"; export EDITOR="$OUT/editor" GIT_EDITOR="$OUT/editor"
edit() { cp "$1" "$1.tmp"; "$EDITOR" "$1.tmp"; cmp -s "$1" "$1.tmp" || cat "$1.tmp" > "$1"; rm "$1.tmp"; }
echo 'draft 1' > table
for i in 1 2; do cat table; edit table; cat table; echo "draft $i" > table; done
"$EDITOR" table; cat table; sed -i s/final/draft/ table
git init -q -b main .; git add table
echo 'draft message' > msg; git commit -q -e -F msg; git log --format=%B; cat .git/COMMIT_EDITMSG
git commit -q --amend; git log --format=%B; cat msg; echo end > msg; git config alias.x log; git config --unset alias.x; cat .git/config > "$OUT/config"; git config user.name somebody
