# Work files go away by a trap, whatever happened to them.
for code in 0 3; do
  bash -c '
    trap "rm -rf work.$1; echo cleaned >> log" EXIT
    mkdir work.$1; echo data > work.$1/f; cat work.$1/f
    bash -c "sh -c \"echo more >> work.$1/f; mv work.$1/f work.$1/g; cp work.$1/g work.$1/f\""
    cat work.$1/*; exit $1' bash $code || echo "code $?"
done
cat log; echo fresh > log
bash -c 'trap "echo term > log; exit 0" TERM; cat log; kill -TERM $$; sleep 10'
cat log; ls -A
