# Background subshells, pipelines and functions change what their script has read, one after the other.
echo 0 > n
inc() { local x; x=$(cat n); echo $((x + 1)) > n; }
for i in 1 2 3; do
  inc; (inc); (inc) & wait $!
  { (inc; (inc; (inc))); } | cat
  x=$(cat n); bash -c "sh -c 'echo $((x + 1)) > n; true'; true"
  coproc { inc; read -r _; }; echo go >&"${COPROC[1]}"; wait $COPROC_PID 2> /dev/null || true
  cat n
done
exec 3< n; cat <&3; exec 3<&-; inc; cat n
