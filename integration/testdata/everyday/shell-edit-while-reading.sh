# A loop reads a file line by line while its body edits that file.
seq 5 > f
cat f | while read -r n; do sh -c "sh -c 'sed -i s/^$n\$/line$n/ f; true'; true"; done
cat f
while read -r l; do sed -i "s/^$l\$/<$l>/" f; done < f
cat f; x=$(cat f); echo "$x end" > f
mapfile -t lines < f; for l in "${lines[@]}"; do grep -vF "$l" f > t || true; bash -c 'bash -c "mv t f; true"; true'; done
wc -l < f; printf '%s\n' "${lines[@]}" > f
while IFS= read -r -u 3 l; do echo "$l" >> g; sh -c "sh -c 'echo \"$l\" > last; true'"; cat last > /dev/null; done 3< f
cat g last; echo over > last; sort g -o g; cat f > g
