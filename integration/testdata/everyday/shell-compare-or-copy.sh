# Configuration management: a file is replaced only where it differs, and a service is told so.
mkdir etc want
for i in 1 2 3; do
  echo "setting = $i" > want/a.conf; echo 'same' > want/b.conf
  for f in a.conf b.conf; do
    cmp -s want/$f etc/$f || { cp want/$f etc/$f; echo "$f" >> changed; }
  done
  cat etc/a.conf changed
  sh -c 'sh -c "echo drift >> etc/b.conf; true"; true'
  diff -q want/b.conf etc/b.conf > /dev/null || install -m 644 want/b.conf etc/b.conf
  grep -q '^limit' etc/a.conf || echo "limit = $i" >> etc/a.conf
  sed -i "s/^limit.*/limit = $((i * 10))/" etc/a.conf; cat etc/a.conf
done
: > changed; rm -r want; cat etc/*
