# The commit that broke a test is searched by a script that looks at the files.
# needs: git
# varies: \.git/index|\.git/logs/HEAD|\.git/BISECT_LOG
git init -q -b main .
for i in 1 2 3 4 5 6 7 8; do echo "$i" > n; echo "$i" >> log; git add .; git commit -qm "$i"; done
cat n log
cat > "$OUT/check" <<'E'
#!/bin/bash
x=$(cat n)
echo "checked $x" > result
sh -c 'echo more >> result; cat log > /dev/null'
[ "$x" -lt 6 ]
E
chmod +x "$OUT/check"
git bisect start HEAD HEAD~7 > /dev/null
git bisect run "$OUT/check" > "$OUT/found"
grep 'first bad commit' "$OUT/found" | head -n 1
cat result
git bisect reset -q 2> /dev/null || git bisect reset > /dev/null 2>&1
cat n
echo 9 > n; echo own > result
git commit -qam 9; git log --format=%H -1
