# A static site is generated into a directory that is replaced as a whole.
mkdir pages; for p in index about; do echo "# $p" > pages/$p.md; done
cat > gen.sh <<'E'
rm -rf site.new; mkdir site.new
for p in pages/*.md; do n=$(basename $p .md); sh -c "sed 's,^# \(.*\),<h1>\1</h1>,' $p > site.new/$n.html; true"; done
(cd site.new; ls > list; sort -o list list)
rm -rf site.old; [ ! -d site ] || mv site site.old; mv site.new site
E
for i in 1 2 3; do
  bash -c 'bash gen.sh; true'; cat site/*
  echo "# changed $i" > pages/about.md; echo "<!-- by hand -->" >> site/index.html
  sh -c 'sh -c "echo stray > site/stray; true"'; cat site/stray; echo mine > site/stray
done
bash gen.sh; cat site.old/index.html site/about.html; rm -rf site.old pages
