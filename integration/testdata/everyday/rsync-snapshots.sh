# Daily snapshots share unchanged files by hard links.
# needs: rsync
mkdir live; for f in 1 2 3 4; do echo "file $f" > live/$f; done
for day in 1 2 3 4; do
  cat live/* > "$OUT/seen"
  sh -c "sh -c 'echo day $day >> live/$day'"
  if [ -d snap.0 ]; then rm -rf snap.2; [ ! -d snap.1 ] || mv snap.1 snap.2; mv snap.0 snap.1; fi
  rsync -a ${day:+--link-dest=../snap.1} live/ snap.0/ 2> /dev/null
  cat snap.0/$day
done
stat -c '%n %h' snap.*/4; rsync -aI snap.2/ live/; cat live/*; echo restored > live/1
