# A package is installed into a tree that has been looked at, updated and removed.
# needs: make
cat > Makefile <<'E'
install:
	install -d $(DESTDIR)/bin $(DESTDIR)/share
	install -m 755 tool $(DESTDIR)/bin/tool
	install -m 644 data $(DESTDIR)/share/data
	ln -sf tool $(DESTDIR)/bin/t
uninstall:
	rm -f $(DESTDIR)/bin/tool $(DESTDIR)/bin/t $(DESTDIR)/share/data
	rmdir $(DESTDIR)/bin $(DESTDIR)/share
E
echo one > data
for i in 1 2 3; do
  printf '#!/bin/sh\necho tool %s\n' $i > tool
  make -s install DESTDIR="$PWD/root"
  root/bin/tool; cat root/share/data
  sh -c "sh -c 'echo configured $i >> root/share/data'"
  cat root/share/data; echo "$i" > data
done
echo local > root/share/data; make -s uninstall DESTDIR="$PWD/root"; ls -A root
