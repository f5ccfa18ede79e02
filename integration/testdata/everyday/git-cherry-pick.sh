# Commits are picked from another branch, in order and with a conflict that is given up.
# needs: git
# varies: \.git/index
git init -q -b main .
seq 5 > f; git add f; git commit -qm base
git checkout -q -b side
for i in 1 2 3; do echo "side $i" > s$i; sed -i "s/^$i\$/side$i/" f; git add .; git commit -qm "side $i"; done
git checkout -q main
cat f
git cherry-pick side~2 > /dev/null; cat f s1
sed -i s/2/two/ f; git commit -qam two
git cherry-pick side~1 > /dev/null 2>&1 && exit 1
cat f
git cherry-pick --abort
cat f
git revert --no-edit HEAD > /dev/null
cat f; git cherry-pick side~1 side > /dev/null
echo done > f; cat s1 s2 s3; rm s1; git commit -qam done; git log --format=%H
