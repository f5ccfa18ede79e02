# vim in a script: substitutions, backups, filters that look at the file, files that are removed afterwards.
# needs: vim
printf 'one\ntwo\nthree\n' > f
for i in 1 2 3; do
  cat f
  vim -es -u NONE -i NONE -N -c 'set backupskip=' -c '%s/$/a/' -c 'w' -c '%s/$/b/' -c wq f < /dev/null
  sh -c 'sh -c "sed -i s/ab/c/ f; true"; true'; cat f
  vim -es -u NONE -i NONE -N -c 'set backupskip= backup' -c '%!sort' -c wq f < /dev/null; cat f f~
  vim -es -u NONE -i NONE -N -c 'set backupcopy=yes' -c '1d' -c 'r !cat f' -c wq f < /dev/null
  x=$(cat f); echo "$x" | sort -u > f; rm -f f~
  vim -es -u NONE -i NONE -N -c 'set nobackup nowritebackup' -c 'g/^$/d' -c 'sav! g' -c qa f < /dev/null; mv g f
done
cat f; rm f; echo new > f; vim -es -u NONE -i NONE -N -c 's/new/old/' -c x f < /dev/null; cat f
