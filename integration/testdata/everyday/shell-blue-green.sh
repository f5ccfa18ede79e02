# Two directories change places while the script has read in both.
mkdir blue green; echo "blue 1" > blue/f; echo "green 1" > green/f
for i in 1 2 3; do
  cat blue/f green/f
  mv blue tmp; mv green blue; mv tmp green
  cat blue/f green/f
  sh -c "echo $i >> blue/f; sh -c 'sed -i s/1/one/ green/f; true'"
  x=$(cat blue/f); echo "$x!" > blue/f; echo "$i" > green/f
done
mv --exchange blue green 2> /dev/null || { mv blue t; mv green blue; mv t green; }
mkdir old; mv blue green old/; echo end > old/blue/f; cat old/*/f
