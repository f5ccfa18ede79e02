# A file is saved, changed from below, and put back.
echo original > f
for i in 1 2 3; do
  cp f f.bak; cat f
  bash -c 'bash -c "bash -c \"echo changed > f; true\"; true"; true'
  cat f; mv f.bak f; cat f
  cp -p f f.bak; sh -c 'sed -i s/original/other/ f'; cp f.bak f; rm f.bak; cat f
  mv f f.bak; sh -c 'sh -c "echo new > f; true"'; cat f; mv f.bak f; cat f
  tar cf "$OUT/b.tar" f; sh -c 'rm f; echo lost > f'; tar xf "$OUT/b.tar"; cat f
done
ln f f.bak; sed -i s/original/linked/ f; mv f.bak f; cat f; echo end > f
