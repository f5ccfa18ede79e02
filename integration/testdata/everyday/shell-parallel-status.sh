# Jobs of one script write the same file at the same time, none of them having read it; their parent has.
# chance
echo idle > status; : > done.list
for round in 1 2 3; do
  cat status > /dev/null
  for i in 1 2 3 4; do ( sh -c 'echo running > status; true'; echo "$round.$i" >> done.list ) & done
  wait; cat status
  ls done.list | xargs -I{} -P2 sh -c 'echo collecting > status; true'
  cat status; echo idle > status
  for i in 1 2 3 4; do sh -c 'sh -c "echo busy > t.$$; mv t.$$ status; true"; true' & done
  wait; cat status; echo "idle $round" > status
done
sort -o done.list done.list; cat done.list; rm status
