# A log is renamed, a new one is made, old ones move up and the oldest is compressed.
mkdir log
for round in 1 2 3 4; do
  for i in 1 2 3; do sh -c "sh -c 'echo round $round line $i >> log/app.txt; true'"; done
  cat log/app.txt
  [ ! -e log/app.txt.2 ] || { gzip -nf log/app.txt.2; mv log/app.txt.2.gz log/app.txt.3.gz; }
  [ ! -e log/app.txt.1 ] || mv log/app.txt.1 log/app.txt.2
  mv log/app.txt log/app.txt.1; : > log/app.txt; chmod 640 log/app.txt
  echo "late $round" >> log/app.txt.1; cat log/app.txt.1
done
zcat log/*.gz; cat log/app.txt.1 log/app.txt; echo end >> log/app.txt; rm log/*.gz; ls log
