# Lines of a settings file are set, added and removed by the usual one-liners.
printf '[a]\nx = 1\ny = 2\n[b]\nx = 3\n' > s.ini
for i in 1 2 3; do
  sed -i "s/^y = .*/y = $i/" s.ini; cat s.ini
  awk -v v=$i '/^\[b\]/ {b = 1} b && /^x/ {$3 = v} {print}' s.ini > s.ini.tmp && mv s.ini.tmp s.ini
  grep -q '^z' s.ini || sh -c 'sh -c "echo z = 0 >> s.ini; true"'
  sh -c "sh -c 'perl -pi -e s/0/$i/ s.ini; true'; true"
  grep -v '^#' s.ini > "$OUT/t"; cat "$OUT/t" > s.ini
  sed -i -e "1i # changed $i" s.ini; head -n 1 s.ini
  python3 - <<E
import configparser
c = configparser.ConfigParser(); c.read("s.ini"); c["a"]["p"] = "$i"
with open("s.ini", "w") as f: c.write(f)
E
done
cat s.ini; sed -i '/^\[b\]/,$d' s.ini; echo '[c]' >> s.ini
