# Copies of whole trees over trees that have been looked at.
mkdir a b; for f in 1 2 3; do echo "a$f" > a/$f; echo "b$f" > b/$f; done
for i in 1 2; do
  cat a/* b/*
  bash -c 'for f in b/*; do sh -c "echo more >> $f"; done'
  cp -r a/. b/; cat b/*
  cp -rf a/. b/; cp -a a/. b/; cp -r --remove-destination a/. b/; cp -ru a/. b/; cp -rb a/. b/; cp -rl --force a/. c/ 2> /dev/null || cp -r a c
  cat b/1 c/1; echo "own $i" > b/1; cp -a b/1 a/1; cp --reflink=auto b/2 a/3; cp --sparse=always a/3 b/3
done
cp -rT a d; mv -T d e; cp -as "$PWD/a" links; readlink links/1 | sed "s,$PWD,DIR,"; rm -r links; cat e/1
