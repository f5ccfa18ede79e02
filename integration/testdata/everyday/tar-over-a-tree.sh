# Archives are unpacked over a tree that has been looked at and changed.
mkdir tree; for f in a b c; do echo "first $f" > tree/$f; done
tar cf "$OUT/first.tar" tree
cat tree/*
for i in 1 2 3; do
  find tree -type f -exec sh -c 'for f; do sh -c "echo changed >> $f"; done' sh {} +
  cat tree/* | sort | uniq -c
  tar xf "$OUT/first.tar"; cat tree/*
  echo "by hand" > tree/a
  tar xf "$OUT/first.tar" --overwrite; tar xf "$OUT/first.tar" --unlink-first tree/a tree/b
  tar cf - tree | (mkdir -p copy; cd copy; tar xf -); cat copy/tree/a
  echo "copy $i" > copy/tree/a
done
rm -rf copy/tree; cat tree/b
