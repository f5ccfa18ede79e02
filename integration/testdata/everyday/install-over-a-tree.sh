# install replaces files that the script and its children have looked at and changed.
echo 'version 1' > app; echo 'config 1' > conf
for i in 1 2 3; do
  install -D -m 755 app root/bin/app; install -D -m 640 conf root/etc/conf; cat root/bin/app root/etc/conf
  sh -c 'sh -c "sh -c \"sed -i s/config/edited/ root/etc/conf\""'
  cat root/etc/conf
  install -b -m 644 conf root/etc/conf; cat root/etc/conf root/etc/conf~
  install -C -m 644 conf root/etc/conf; install -m 600 -t root/etc app conf; install -d root/etc root/var/lib
  echo "version $((i + 1))" > app; sed -i "s/[0-9]*$/$i/" conf
done
cp conf root/etc/conf; mv root/etc/conf~ root/etc/conf; cat root/etc/conf
