# grep, xargs and sed rename a symbol over a source tree; the script checks and changes it again.
mkdir -p src/x; for f in src/a.c src/b.c src/x/c.c; do printf 'old_name(1);\nother(2);\nold_name(3);\n' > $f; done
grep -rl old_name src | sort
grep -rl old_name src | xargs sed -i s/old_name/new_name/
grep -rc new_name src | sort
grep -rlZ new_name src | xargs -0 perl -pi -e 's/new_name/newer_name/'
cat src/a.c; sed -i 1d src/a.c; x=$(cat src/x/c.c); printf '%s\n// end\n' "$x" > src/x/c.c
find src -name '*.c' -print0 | xargs -0 -P2 -I{} bash -c 'bash -c "cp {} {}.bak; sed -i s/newer/final/ {}.bak; mv {}.bak {}"'
cat src/a.c src/b.c src/x/c.c; echo '// by hand' > src/b.c
