# logrotate itself, twice, in both ways, while a program has the logs open.
# needs: logrotate
# varies: state|c\.log\..*\.gz
cat > rotate.conf <<E
"$PWD/a.log" { rotate 3
nodateext
create 644
}
"$PWD/b.log" { rotate 3
nodateext
copytruncate
}
"$PWD/c.log" { rotate 3
nodateext
compress
}
E
chmod 644 rotate.conf
exec 7>> a.log 8>> b.log
for round in 1 2 3; do
  for f in a b c; do sh -c "sh -c 'echo $f $round >> $f.log; true'; true"; done
  echo "open a $round" >&7; echo "open b $round" >&8
  cat a.log b.log c.log
  logrotate -f -s "$PWD/state" rotate.conf
  echo "late $round" >&7; exec 7>> a.log
  cat a.log.1 b.log.1; cat b.log
done
exec 7>&- 8>&-
zcat c.log.1.gz c.log.2.gz; cat a.log.2 b.log.3; rm state; sed -i 's,^".*/,",' rotate.conf; echo end > a.log.1; ls
