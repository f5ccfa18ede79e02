# awk reads a file line by line and has shells change it and others.
printf '%s\n' 1 2 3 > f; for i in 1 2 3; do echo 0 > n$i; done
for round in 1 2; do
  cat f n?
  awk '{ system("sh -c \"sh -c \\\"echo " $1 " > n" $1 "; true\\\"; true\"") ; print $1 + 1 > "f.new" } END { close("f.new"); system("mv f.new f; sh -c \"sed -i s/4/1/ f; true\"") }' f
  cat f n?; for i in 1 2 3; do echo "mine $round" > n$i; done; sort -o f f
done
cat f n?
