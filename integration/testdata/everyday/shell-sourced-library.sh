# A library of functions keeps its settings in a file that it reads and rewrites.
cat > lib.sh <<'E'
get() { sed -n "s/^$1=//p" settings; }
put() { touch settings; grep -v "^$1=" settings > settings.tmp || true; echo "$1=$2" >> settings.tmp; mv settings.tmp settings; }
E
. ./lib.sh
put a 1; put b 2
for i in 1 2 3; do
  put a $(($(get a) + 1))
  bash -c '. ./lib.sh; bash -c ". ./lib.sh; put b from-below"; true'
  put b "$(get b)-$i"; cat settings
  sh -c 'sh -c "echo c=child >> settings"'; put c "$(get c).$i"
done
cat settings; echo a=0 > settings; get a
