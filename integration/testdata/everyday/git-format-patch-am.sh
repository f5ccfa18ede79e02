# A series of patches goes from one branch to another by mail files.
# needs: git
# varies: \.git/index
git init -q -b main .
seq 20 > f; git add f; git commit -qm base; git checkout -q -b side
for i in 3 9 15; do sed -i "s/^$i\$/changed/" f; git commit -qam "change $i"; done
git format-patch -q -o patches main; cat patches/*.patch | grep -c '^+changed'
git checkout -q main; cat f | md5sum
git am -q patches/*.patch; cat f | md5sum
git reset -q --hard HEAD~3; cat f | head -n 3
for p in patches/*.patch; do git apply --index "$p"; cat f > "$OUT/seen"; git commit -qm "$p"; done
rm -r patches; echo end > f; git commit -qam end; git log --format=%s
