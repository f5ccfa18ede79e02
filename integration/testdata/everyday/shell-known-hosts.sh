# Keys are made, and a list of hosts is added to, hashed and cut by the program that owns it.
# needs: ssh-keygen
# varies: key.*|known_hosts.*|authorized
ssh-keygen -q -t ed25519 -N '' -C test -f key
for i in 1 2 3; do echo "host$i $(cut -d' ' -f1,2 key.pub)" >> known_hosts; done
cat known_hosts > "$OUT/seen"
ssh-keygen -q -R host2 -f known_hosts > /dev/null 2>&1; grep -c host known_hosts
sh -c "sh -c 'sed -i s/host3/host4/ known_hosts; true'; true"
ssh-keygen -q -H -f known_hosts > /dev/null 2>&1; wc -l < known_hosts; rm -f known_hosts.old
ssh-keygen -q -y -f key > key.pub; cat key.pub >> authorized; sort -u authorized -o authorized; rm key; ssh-keygen -q -t ed25519 -C test -N '' -f key > /dev/null; ssh-keygen -q -p -N new -f key > /dev/null; cat key.pub > authorized; ls
