# Hooks change what is committed and write a file of their own.
# needs: git
# varies: \.git/index
git init -q -b main .
cat > .git/hooks/pre-commit <<'E'
#!/bin/sh
git diff --cached --name-only | while read -r f; do sh -c "sed -i 's/[[:space:]]*\$//' '$f'"; git add "$f"; done
E
cat > .git/hooks/post-commit <<'E'
#!/bin/sh
sh -c 'git rev-parse HEAD > VERSION'
E
chmod +x .git/hooks/pre-commit .git/hooks/post-commit
for i in 1 2 3; do
  printf 'text %s   \n' $i >> f; cat f
  git add f; git commit -qm $i
  cat -A f; cat VERSION
  echo "written by hand" > VERSION
done
rm .git/hooks/*; echo end > f; git commit -qam end
