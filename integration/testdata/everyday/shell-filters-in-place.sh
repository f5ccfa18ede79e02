# Filters that write back what they have read.
# needs: sponge ed gawk perl
printf '%s\n' delta alpha charlie bravo > f
for i in 1 2; do
  sort -o f f; cat f; sort -r f | sponge f; cat f
  sh -c 'sh -c "sed -i 1d f; echo zulu >> f; true"'
  printf '1m$\nw\nq\n' | ed -s f; perl -pi -e 's/$/p/' f; gawk -i inplace '{print $0 "g"}' f; sed -i.old s/g$// f
  tac f | tee t > /dev/null; tee f < t > /dev/null; uniq f > t; cp t f; shuf --random-source=/dev/zero f -o f; dd if=t of=f 2> /dev/null
  truncate -s 20 f; truncate -s -1 f; fallocate -l 10 g; cat f; iconv -f ascii -t utf-8 f -o f.utf; mv f.utf f; expand f > t; mv t f
done
cat f f.old; echo end > f
