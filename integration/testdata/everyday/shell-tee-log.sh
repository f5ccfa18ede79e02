# The output of a script is kept by tee, which is a child of it.
build() { echo "building $1"; sh -c "sh -c 'echo out $1 > out.txt; true'; true"; cat out.txt; echo "warning: $1" >&2; }
for i in 1 2 3; do
  build $i 2>&1 | tee build.txt
  grep -c warning build.txt; cat build.txt >> all.txt
  echo "by hand $i" > out.txt; { build again; } > build.txt 2>&1; tail -n 1 build.txt
  build third 2> >(cat > err.txt) > out2.txt; wait; cat out2.txt
done
sed -i /warning/d all.txt; cat all.txt; tee build.txt out.txt < all.txt > /dev/null; cat build.txt | sort | tee out.txt | wc -l
