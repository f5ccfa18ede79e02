# Updates below flock, in the usual ways of writing it.
# needs: flock
# chance
echo 0 > n; : > n.lock
for i in 1 2 3; do
  flock n.lock sh -c 'x=$(cat n); echo $((x + 1)) > n'
  flock n.lock -c 'awk "{print \$1 + 1}" n > n.tmp && mv n.tmp n'
  ( flock 9; x=$(cat n); sh -c "sh -c 'echo $((x + 1)) > n; true'; true" ) 9> n.lock
  exec 8>> n.lock; flock 8; sed -i "s/.*/$(($(cat n) + 1))/" n; exec 8>&-
  ( flock -n 9 || exit 1; cat n ) 9< n.lock
done
for i in 1 2 3 4; do flock n.lock sh -c 'x=$(cat n); echo $((x + 1)) > n' & done; wait
cat n; echo end > n; flock -n n.lock true; rm n.lock
