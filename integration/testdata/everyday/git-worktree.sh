# A second work tree gets a fix, the first one takes it over.
# needs: git
# varies: \.git/index|\.git/worktrees/.*|tree/\.git
git init -q -b main .
mkdir -p src; echo 'int a;' > src/a.c; git add .; git commit -qm a
cat src/a.c
git worktree add -q -b fix "$PWD/tree"
cat tree/src/a.c
sed -i s/int/long/ tree/src/a.c
git -C tree commit -qam long
git merge -q fix
cat src/a.c
echo 'char c;' >> src/a.c
sh -c 'cp src/a.c tree/src/a.c'
echo '/* end */' >> tree/src/a.c
git worktree remove --force tree
git commit -qam char; git log --format=%H; git worktree list --porcelain | wc -l
