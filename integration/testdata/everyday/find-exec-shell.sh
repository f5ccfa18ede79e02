# find runs shells that run sed.
mkdir -p a/b/c; for f in a/1 a/b/2 a/b/c/3; do echo "TODO $f" > $f; done
cat a/1 a/b/2 a/b/c/3
find a -type f -exec sh -c 'sed -i s/TODO/DONE/ "$1"' sh {} \;
cat a/1 a/b/2 a/b/c/3
for f in a/1 a/b/2 a/b/c/3; do x=$(cat $f); echo "$x again TODO" > $f; done
find a -type f -exec bash -c 'for f; do bash -c "sh -c \"sed -i s/TODO/done/ $f\""; done' bash {} +
for f in a/1 a/b/2 a/b/c/3; do echo "by hand: $(cat $f)" > $f; done
find a -name 2 -execdir mv {} two \; ; find a -type f -exec grep -l hand {} + | sort
find a -type f -newermt 2000-01-01 -delete; find a -depth -type d -empty -delete; ls -A
