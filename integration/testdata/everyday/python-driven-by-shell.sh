# Small programs called by a script change its files.
echo '{"n": 0}' > f
for i in 1 2 3; do
  cat f
  "$PYTHON" -c 'import json; d = json.load(open("f")); d["n"] += 1; json.dump(d, open("f", "w"))'
  x=$(cat f); echo "$x" > f
  "$PYTHON" -c 'import json
with open("f", "r+") as f: d = json.load(f); d["n"] += 1; f.seek(0); json.dump(d, f); f.truncate()'
  cat f; sh -c "sh -c '\"$PYTHON\" -c \"import os; open(\\\"t\\\", \\\"w\\\").write(open(\\\"f\\\").read()); os.replace(\\\"t\\\", \\\"f\\\")\"'"
  sed -i "s/}/, \"k$i\": 1}/" f
done
cat f; echo '{}' > f
