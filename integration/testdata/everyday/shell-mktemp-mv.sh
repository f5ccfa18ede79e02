# Files are prepared beside their place and moved there, by the script and from below.
echo 0 > f
for i in 1 2 3; do
  t=$(mktemp -p . .f.XXXXXX); cat f > "$t"; echo "$i" >> "$t"; chmod 644 "$t"; mv "$t" f; cat f
  sh -c 't=$(mktemp -p . .f.XXXXXX); sh -c "tac f > $t"; chmod 644 $t; mv -f $t f; true'
  t=$(mktemp -d -p . .d.XXXXXX); cp f "$t/f"; sh -c "echo '$i again' >> $t/f; true"; mv "$t/f" f; rmdir "$t"
done
cat f; mv f g; ln g f; echo both >> g; cat f; stat -c %h f
