# Formatters run in parallel over what is staged, as pre-commit does, with the rest put aside.
# needs: git
# varies: \.git/index|\.git/objects/.*|\.git/.*stash
git init -q -b main .
for i in 1 2 3 4 5 6; do printf 'x=%s  \n' $i > f$i.py; done; git add .; git commit -qm base
for round in 1 2; do
  for i in 1 2 3; do printf 'y=%s  \n' $round >> f$i.py; done; git add f1.py f2.py; echo "z = 1" >> f3.py
  cat f?.py | wc -l
  git diff > "$OUT/unstaged.patch"; git checkout -q -- .
  git diff --cached --name-only -z | xargs -0 -P4 -n1 sh -c 'sh -c "sed -i \"s/[[:space:]]*$//\" $0; true"; true'
  git add f1.py f2.py; git apply --whitespace=nowarn "$OUT/unstaged.patch"
  cat f1.py f3.py; git commit -qm "round $round"; git checkout -q f3.py; echo "# $round" >> f3.py; git commit -qam "own $round"
done
git log --format=%s; git status --porcelain; echo end > f1.py
