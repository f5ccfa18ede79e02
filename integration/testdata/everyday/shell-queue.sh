# A spool of jobs is worked off by children and put away.
mkdir in out failed
for i in 1 2 3 4 5; do echo "job $i" > in/.t; mv in/.t in/$i; done
cat in/*
for j in in/*; do
  n=$(basename $j)
  if sh -c "sh -c 'sed -i s/job/done/ $j; [ $n != 3 ]'"; then mv $j out/; else mv $j failed/; fi
  ls in | wc -l > status; cat status
done
cat out/* failed/*; echo retry > failed/3; mv failed/3 in/3; cat in/3; sh -c 'echo ok >> in/3'; mv in/3 out/3
cat out/* > all; rm -r in out failed; echo empty > status
