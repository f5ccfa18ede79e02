# A watcher runs make again for every change; make generates a header and lets sed at all sources.
# needs: make
mkdir src
cat > Makefile <<'E'
all: gen.h
	@sh -c "find src -name '*.c' | xargs sed -i s/OLD/NEW/; true"
	@sh -c 'cat src/*.c gen.h > all.txt'
gen.h: src/a.c src/b.c
	@echo "/* generated */" > gen.h
	@bash -c 'bash -c "sed -i s/generated/made/ gen.h; true"; true'
.PHONY: all
E
for i in 1 2 3 4; do
  for f in a b; do echo "int $f = OLD; /* $i */" > src/$f.c; done
  touch -d "2020-01-0$i" gen.h
  make -s
  cat gen.h src/a.c all.txt
  echo "/* forced $i */" > gen.h
done
