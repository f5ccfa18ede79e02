# A configuration is generated from templates and fragments, as debconf and Docker entrypoints do it.
# needs: envsubst
mkdir conf.d; for i in 10 20 30; do echo "fragment $i" > conf.d/$i; done
echo 'name = ${NAME}' > template
for NAME in one two three; do
  export NAME; envsubst < template > main.conf; cat main.conf
  cat conf.d/* >> main.conf
  sh -c 'sh -c "sed -i /20/d main.conf; true"; true'
  cat > extra.conf <<E
# made for $NAME
$(cat main.conf)
E
  cat extra.conf; x=$(sort -u main.conf); printf '%s\n' "$x" > main.conf; cat extra.conf main.conf > all.tmp && mv all.tmp all.conf
done
cat all.conf; : > main.conf; rm -r conf.d
