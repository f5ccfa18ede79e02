# An archive is updated and unpacked over what was read.
# needs: zip unzip
mkdir d; seq 30 > d/a; seq 40 > d/b
zip -qr x.zip d
for i in 1 2 3; do
  cat d/a d/b | wc -l; unzip -Z1 x.zip
  sh -c "sh -c 'echo more $i >> d/a'"; touch -d "2030-01-0$i" d/a
  zip -qu x.zip d/a; unzip -p x.zip d/a | tail -n 1
  echo spoilt > d/a; unzip -oq x.zip; tail -n 1 d/a
  zip -qd x.zip d/b; zip -qr x.zip d; rm d/b; unzip -oq x.zip d/b
done
cp x.zip y.zip; rm x.zip; unzip -tq y.zip; rm y.zip
