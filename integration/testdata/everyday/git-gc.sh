# The repository is packed between commits.
# needs: git
# varies: \.git/(index|objects/(pack|info)/.*|logs/.*|packed-refs)
git init -q -b main .
for i in 1 2 3 4 5 6; do
  echo $i > a; cat a; git add a; git commit -qm $i
  [ $((i % 3)) != 0 ] || git gc -q --prune=now
done
git repack -adq; git pack-refs --all; git prune-packed; git fsck --strict
git branch old HEAD~3; git checkout -q old; cat a; git checkout -q main; echo 7 > a
git commit -qam 7; git log --format=%H
