# Two clones exchange commits through a third repository.
# needs: git
# varies: (one|two|hub\.git)(/\.git)?/(index|logs/.*|packed-refs|FETCH_HEAD|ORIG_HEAD|config)|.*/objects/.*
git init -q --bare -b main hub.git
git clone -q hub.git one 2> /dev/null
(cd one; git checkout -q -b main 2> /dev/null || true; echo 1 > f; git add f; git commit -qm 1; git push -q origin main)
git clone -q hub.git two
cat one/f two/f
for i in 2 3 4; do
  (cd two; x=$(cat f); echo $((x + 1)) > f; git commit -qam $i; git push -q origin main)
  (cd one; cat f; git pull -q --ff-only; cat f)
done
echo 5 > one/f; git -C one commit -qam 5; git -C one push -q
git -C two pull -q --rebase; cat two/f; echo own > two/f; git -C two log --format=%H
