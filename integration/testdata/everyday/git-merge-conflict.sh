# A merge stops at a conflict, which the script resolves.
# needs: git
# varies: \.git/index
git init -q -b main .
seq 9 > f; git add f; git commit -qm base
git checkout -q -b side; sed -i s/5/side/ f; git commit -qam side
git checkout -q main; sed -i s/5/main/ f; git commit -qam main
cat f
git merge side > /dev/null && exit 1
grep -c '<<<<' f
sh -c 'sed -i -e "/^<<<</d" -e "/^====/d" -e "/^>>>>/d" f'
cat f
git add f; git commit -qm merged
git checkout -q -b again HEAD~1; git merge -q -X ours side 2> /dev/null; cat f
git checkout -q main; git checkout --theirs f 2> /dev/null || true
echo end >> f; git commit -qam end; git log --format=%H | sort
