# Releases are switched by a link that is replaced as a whole, and old ones are removed.
for v in 1 2 3 4; do
  mkdir -p releases/$v; echo "release $v" > releases/$v/index; echo shared > releases/$v/conf
  ln -s releases/$v current.new; mv -T current.new current
  cat current/index current/conf
  sh -c 'sh -c "echo deployed >> current/index; sed -i s/shared/configured/ current/conf"'
  cat current/index current/conf
  echo "by hand $v" > current/conf
  ls -d releases/* | sort | head -n -2 | xargs -r rm -r
done
ln -sfn releases/3 current; cat current/index; echo back > current/index; rm current; ls releases
