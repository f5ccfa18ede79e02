# nvim in a script, over what its parent reads and its children change.
# needs: nvim
printf 'one\ntwo\n' > f
for i in 1 2; do
  cat f
  nvim --headless -u NONE -i NONE -n -c '%s/$/a/' -c w -c 'silent !sh -c "sed -i s/a/b/ f; true"' -c 'edit!' -c '%s/$/c/' -c wq f < /dev/null > /dev/null 2>&1
  cat f; echo "more $i" >> f
  nvim -es -u NONE -i NONE -c 'set backupskip= backup writebackup backupdir=.' -c '$d' -c wq f < /dev/null; cat f f~; mv f~ f
done
echo end > f
