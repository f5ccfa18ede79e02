# JSON is changed by jq in all the usual ways, by the script and from below.
# needs: jq
echo '{"n":0,"list":[]}' > f
for i in 1 2 3; do
  jq -c ".n += 1" f > f.tmp && mv f.tmp f
  x=$(jq -c ".list += [$i]" f); echo "$x" > f
  sh -c 'sh -c "jq -c .n+=10 f > f.tmp && mv f.tmp f; true"; true'
  jq -c .n f; cp f "$OUT/f"; jq -c '.n -= 1' "$OUT/f" > f
  jq -c --argjson i $i '.last = $i' <<< "$(cat f)" | tee f.new > /dev/null; cat f.new > f
done
cat f; jq -r '.list[]' f | while read -r n; do sh -c "jq -c '.k$n = 1' f > t; mv t f"; done; cat f; echo '{}' > f
