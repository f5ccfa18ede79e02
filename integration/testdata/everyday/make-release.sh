# A release: the version is raised by a script four shells below, then set by hand.
# needs: make
cat > Makefile <<'E'
bump:
	@bash bump.sh; true
E
cat > bump.sh <<'E'
bash -c "sed -i s/1.0/1.1/ VERSION; true"
true
E
echo 1.0 > VERSION
make -s bump
cat VERSION
echo 1.2 > VERSION
sed -i s/1.1/1.2/ bump.sh; sed -i s/1.0/1.2/ bump.sh
make -s bump
x=$(cat VERSION); echo "$x-rc1" > VERSION
make -s bump; echo 2.0 > VERSION; cat VERSION
