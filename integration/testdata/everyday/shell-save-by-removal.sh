# Files are removed first and made again, by their script and from below.
echo 0 > f
for i in 1 2 3; do
  x=$(cat f); rm f; echo "$x $i" > f
  cat f; sh -c 'sh -c "rm f; echo below > f; true"; true'
  rm f; echo "mine $i" > f; cat f
  sh -c 'sh -c "echo changed > f; true"; true'; rm -f f; cp /dev/null f; cat f
  sh -c 'sh -c "rm f; true"; true'; echo again > f; mv f g; sh -c 'sh -c "echo taken > f; true"'; rm f; mv g f
  set -C; sh -c 'rm f; true'; echo exclusive > f; set +C; cat f
done
cat f; unlink f; ls -A
