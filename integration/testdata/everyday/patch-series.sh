# A series of patches is applied and taken back, as quilt does.
# needs: patch diff
mkdir src patches; seq 20 > src/f; cp src/f "$OUT/orig"
for n in 1 2 3; do
  cp src/f src/f.new; sed -i "s/^$((n * 5))\$/patch $n/" src/f.new
  diff -u --label a/f --label b/f src/f src/f.new > patches/$n || true
  mv src/f.new src/f
done
for n in 3 2 1; do patch -s -R src/f patches/$n; cat src/f | md5sum; done
cmp src/f "$OUT/orig"
for n in 1 2 3; do patch -s -b src/f < patches/$n; sh -c "sh -c 'sed -i s/patch/Patch/ src/f'"; grep -c Patch src/f; sed -i s/Patch/patch/ src/f; done
patch -s --dry-run -R src/f patches/3; mv src/f.orig src/f; echo end >> src/f; tail -n 2 src/f
