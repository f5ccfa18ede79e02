# ex and ed in a script.
# needs: ex ed
seq 5 > f
for i in 1 2 3; do
  printf '%s\n' '2,3d' 'a' "new $i" . w q | ed -s f; cat f
  sh -c 'sh -c "echo below >> f; true"; true'
  ex -s -u NONE -i NONE -c '%s/new/newer/' -c 'w' -c '$d' -c x f < /dev/null; cat f
  ed -s f <<'E'
g/newer/s//newest/
w
r !cat f
w
q
E
  sort -u -o f f; cat f
done
echo end > f
