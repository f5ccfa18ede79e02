# A change from five shells below the one that has read the file.
echo 1 > a
cat a
bash -c 'bash -c "bash -c \"bash -c \\\"bash -c \\\\\\\"echo 2 > a; true\\\\\\\"; true\\\"; true\"; true"; true'
echo 3 > a
cat a
f() { if [ "$1" = 0 ]; then echo "$2" > a; else bash -c "$(declare -f f); f $(($1 - 1)) $2; true"; fi; }
for depth in 1 2 3 4 5 6 7 8; do f $depth "depth $depth"; x=$(cat a); echo "$x, seen" > a; f $depth again; echo over > a; done
f 8 last; rm a; f 3 new; cat a; mv a b; f 5 other; mv b a; cat a
