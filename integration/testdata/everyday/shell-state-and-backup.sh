# A tool keeps its state as terraform does: lock, backup, new state, plan and apply in processes of their own.
# needs: jq
echo '{"serial":0,"r":[]}' > state.json
cat > apply <<'E'
set -C; echo $$ > .state.lock.info || exit 1; set +C
trap 'rm -f .state.lock.info' EXIT
cp state.json state.json.backup
sh -c "jq -c '.serial += 1 | .r += [\"$1\"]' state.json > .new && mv .new state.json; true"
jq -r .serial state.json
E
for r in a b c; do
  jq -c . state.json; bash -c "bash apply $r; true"
  jq -c 'del(.r[0])' state.json > plan.json; cat state.json.backup
  [ $r != b ] || mv state.json.backup state.json
  x=$(jq -c '.note = "seen"' state.json); echo "$x" > state.json
done
cat state.json; ls -A
