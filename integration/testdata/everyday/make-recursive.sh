# Directories build each other's inputs, in parallel.
# needs: make
mkdir -p lib app
printf 'all: app/out\napp/out: lib/out\n\t@$(MAKE) --no-print-directory -s -C app\nlib/out: lib/in\n\t@$(MAKE) --no-print-directory -s -C lib\nclean:\n\t@rm -f lib/out app/out app/out.tmp\n.PHONY: clean\n' > Makefile
printf 'out: in\n\tsort in > out.tmp\n\tmv out.tmp out\n\tsh -c "echo lib >> out; true"\n' > lib/Makefile
printf 'out: ../lib/out\n\tcat ../lib/out > out.tmp; echo app >> out.tmp\n\tmv out.tmp out\n' > app/Makefile
for i in 1 2 3; do
  printf '%s\n' c b a $i > lib/in
  make -s -j2; cat lib/out app/out
  echo "by hand $i" > app/out; make -s -j2; cat app/out
  make -s clean
done
echo last > lib/in; make -s; ls -R
