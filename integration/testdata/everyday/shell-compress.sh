# Files are compressed in place and taken out again, over what was there.
# needs: gzip bzip2 xz
seq 1000 > data; cp data "$OUT/data"
for z in gzip bzip2 xz; do
  cat data | md5sum; $z -k data; sh -c "sh -c 'echo spoilt > data; true'"; rm data
  $z -d data.*; cmp data "$OUT/data"
  $z -k data; $z -df data.*; cmp data "$OUT/data"
  $z -c data > data.z; $z -dc data.z > data; cmp data "$OUT/data"; $z -dc < data.z | tail -n 1 > last; cat last
  rm data.z;   sed -i s/1000/last/ data; cp "$OUT/data" data
done
echo end > data
