# Catalogues of translations are merged and compiled.
# needs: msgfmt msgmerge
printf 'msgid ""\nmsgstr "Content-Type: text/plain; charset=UTF-8\\n"\n\nmsgid "one"\nmsgstr "eins"\n' > de.po
for i in 2 3; do
  printf 'msgid ""\nmsgstr "Content-Type: text/plain; charset=UTF-8\\n"\n\nmsgid "one"\nmsgstr ""\n\nmsgid "n%s"\nmsgstr ""\n' $i > x.pot
  cat de.po; msgmerge -q -U --backup=simple de.po x.pot; cat de.po
  sh -c 'sh -c "sed -i s/eins/Eins/ de.po; true"; true'
  msgfmt -o de.mo de.po; cat de.po > "$OUT/seen"; msgmerge -q de.po x.pot -o de.po.new; mv de.po.new de.po
done
rm -f de.po~; sed -i s/Eins/eins/ de.po; cat de.po
