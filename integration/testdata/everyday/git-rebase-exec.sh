# Every commit of a branch is checked, and amended by what the check changes.
# needs: git
# varies: \.git/index
git init -q -b main .
echo base > base; git add .; git commit -qm base
git checkout -q -b topic
for i in 1 2 3; do printf 'value  %s  \n' $i > "v$i"; git add .; git commit -qm "v$i"; done
cat v1 v2 v3
git rebase -q -x 'sh -c "sed -i s/[[:space:]]*$// v*; git commit -q --amend --no-edit -a"' main > /dev/null 2>&1
cat -A v1 v2 v3
echo end > v1
git commit -qam end
git log --format=%H
