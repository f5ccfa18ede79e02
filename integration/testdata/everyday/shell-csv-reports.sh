# Reports are cut, joined, split and put together again.
for i in 3 1 2; do echo "$i,name$i,$((i * 10))" >> people.csv; echo "$i,town$i" >> towns.csv; done
sort -o people.csv people.csv; sort -o towns.csv towns.csv
join -t, people.csv towns.csv > joined.csv; cat joined.csv
split -l 1 people.csv part.; cat part.a?; sh -c 'sh -c "for f in part.*; do sed -i s/name/Name/ \$f; done; true"'
cat part.* > people.csv; cat people.csv; csplit -s -f sec. joined.csv 2 3; cat sec.*; rm part.* sec.*
cut -d, -f2 people.csv | paste -sd+ > names; cat names; awk -F, '{s += $3} END {print s}' people.csv >> names
x=$(cat names); echo "$x" | tr a-z A-Z > names; comm -12 <(sort names) <(sort names | tee sorted) > common; cat common; mv sorted names
sha256sum people.csv towns.csv > sums; sha256sum -c sums; echo changed >> people.csv; sha256sum -c --quiet sums 2> /dev/null || sha256sum people.csv towns.csv > sums
