# Four shells at a time change the files that their parent has read.
# chance
for i in 1 2 3 4 5 6 7 8; do echo 0 > n$i; done
for round in 1 2 3; do
  cat n? | sort | uniq -c
  ls n? | xargs -P4 -I{} sh -c 'x=$(cat {}); echo $((x + 1)) > {}.tmp; mv {}.tmp {}'
  printf '%s\0' n? | xargs -0 -P4 -n2 sh -c 'for f; do sh -c "sed -i s/\$/0/ $f"; done' sh
  for i in 1 2 3 4; do x=$(cat n$i); echo $((x - 1)) > n$i; done
done
cat n?; ls n? | xargs -P4 -n1 rm; ls -A
