# Everything that is not in the repository is removed, whatever has been read of it.
# needs: git
# varies: \.git/index
git init -q -b main .
mkdir src; echo a > src/a; printf '*.o\nbuild\n' > .gitignore; git add .; git commit -qm a
for i in 1 2; do
  mkdir -p build/x; for f in 1 2 3; do echo "object $f" > src/$f.o; echo out > build/x/$f; done
  cat src/*.o build/x/*
  sh -c 'sh -c "echo touched >> src/1.o; echo changed > src/a"'
  git clean -fdxq
  git reset -q --hard; cat src/a
done
echo b > src/a; git rm -q --cached src/a; git clean -fdq; ls -A
