# Branches are switched below a script that has read every file, and it writes them afterwards.
# needs: git
# varies: \.git/index
git init -q -b main .
for f in a b c; do echo "main $f" > $f; done
git add .; git commit -qm main
git checkout -q -b side
for f in a b c; do echo "side $f" > $f; done
git rm -qf c; mkdir c; echo "side c/d" > c/d; git add .; git commit -qm side
for i in 1 2 3; do
  cat a b c/d; git checkout -q main
  cat a b c; git checkout -q side
  cat a; git checkout -q main -- a; cat a; git checkout -q HEAD -- a; git restore --source main --staged --worktree a; git reset -q --hard
done
echo mine > a; x=$(cat b); echo "$x mine" > b
git stash -q; git checkout -q main; cat a b c
echo last > c; git commit -qam last; git status --porcelain
