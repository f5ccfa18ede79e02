# A mirror is brought up to date after both sides have been looked at and changed.
# needs: rsync
mkdir src dst; seq 50 > src/a; seq 60 > src/b; mkdir src/d; echo deep > src/d/f
for i in 1 2 3; do
  rsync -a src/ dst/
  cat dst/a dst/d/f | wc -l
  bash -c 'bash -c "sed -i 1d dst/a; echo stray > dst/stray"'
  echo "$i" >> src/a; rm -f src/b; echo new > src/n$i
  rsync -aI src/ dst/; cat dst/a | tail -n 1
  echo "local change" > dst/a
  rsync -aI --inplace src/ dst/; rsync -a --delete src/ dst/; rsync -aI --backup --suffix=.old src/ dst/
  cat dst/d/f; rsync -a --delete-excluded --exclude='*.old' src/ dst/
done
diff -r src dst; rsync -a --remove-source-files src/ moved/; find . -type f | sort
