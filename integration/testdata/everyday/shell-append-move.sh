# What children append to is moved by their parent.
: > spool; cat spool
for i in 1 2 3; do
  sh -c "sh -c 'echo line $i >> spool; true'; true"
  cat spool
  bash -c 'for j in 1 2; do /bin/echo "more $j" >> spool; done'
  mv spool spool.$i; cat spool.$i
  sh -c "echo late >> spool.$i"; : > spool; sort spool.$i -o spool.$i
  [ $i = 1 ] || mv spool.$i spool.1
done
sh -c 'echo x >> spool'; mv spool spool.1; cat spool.1; ls
