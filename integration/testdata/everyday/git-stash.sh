# Work is put aside and taken back, while the script goes on looking at the file.
# needs: git
# varies: \.git/index|\.git/logs/refs/stash
git init -q -b main .
seq 10 > f; git add f; git commit -qm f
cat f
sed -i s/5/five/ f
cat f | tail -n 1
git stash -q
grep -c 5 f
sed -i s/9/nine/ f
git commit -qam nine
git stash pop -q
cat f
echo more >> f
git stash push -q -m second; git stash apply -q; git stash drop -q
x=$(cat f); echo "$x and more" > f
git stash -q; git stash branch -q taken > /dev/null 2>&1 || git stash branch taken > /dev/null
git status --porcelain; tail -n 2 f
