# A C program whose dependencies the compiler writes, built after each change of a header.
# needs: make gcc
# varies: main\.o|lib\.o|prog
cat > Makefile <<'E'
prog: main.o lib.o
	gcc -o $@ $^
%.o: %.c
	gcc -MMD -MP -c $<
-include *.d
clean:
	rm -f *.o *.d prog
E
echo 'int twice(int);' > lib.h
printf '#include "lib.h"\nint twice(int x) { return 2 * x; }\n' > lib.c
printf '#include <stdio.h>\n#include "lib.h"\nint main(void) { printf("%%d\\n", twice(VALUE)); return 0; }\n' > main.c
for v in 1 2; do
  sed -i "1i #define VALUE $v" lib.h; touch -d "2030-01-0$v" lib.h
  make -s 2> /dev/null; ./prog; cat main.d lib.h
  sed -i 1d lib.h
done
make -s clean; cat lib.h; echo '/* end */' >> lib.h; ls
