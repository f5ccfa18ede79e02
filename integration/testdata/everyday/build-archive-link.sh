# A library is compiled, archived, linked and stripped, again and again over what was run.
# needs: gcc ar ld strip ranlib
# varies: .*\.o|prog|.*\.a|whole
printf 'int one(void) { return 1; }\n' > one.c
printf 'int two(void) { return 2; }\n' > two.c
printf '#include <stdio.h>\nint one(void); int two(void);\nint main(void) { printf("%%d\\n", one() + two()); return 0; }\n' > main.c
for i in 1 2; do
  gcc -c one.c two.c main.c
  ar rcsD libn.a one.o two.o; ranlib -D libn.a; ar t libn.a
  ld -r -o whole one.o two.o
  gcc -o prog main.o libn.a; ./prog; strip prog; ./prog
  cat one.c prog libn.a | wc -l > /dev/null
  sh -c 'sed -i "s/return 1/return 10/" one.c'
  install -m 755 prog installed; ./installed
done
objcopy --only-keep-debug prog prog.debug; rm -f prog.debug *.o; cat one.c
