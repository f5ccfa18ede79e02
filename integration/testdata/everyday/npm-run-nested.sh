# npm scripts that call npm scripts that call shells.
# needs: npm node
export npm_config_update_notifier=false npm_config_fund=false npm_config_offline=true npm_config_cache=$OUT/cache
cat > package.json <<'E'
{"name":"x","version":"1.0.0","scripts":{
  "build":"npm run --silent gen && sh -c \"sed -i s/draft/built/ out.txt\"",
  "gen":"node gen.js",
  "postbuild":"sh -c \"sh -c 'echo post >> out.txt; true'; true\""}}
E
echo 'const fs = require("fs"); fs.writeFileSync("out.txt", fs.readFileSync("in.txt", "utf8") + "draft\n")' > gen.js
for i in 1 2; do
  echo "input $i" > in.txt
  npm run --silent build
  cat out.txt
  x=$(cat out.txt); echo "$x and by hand" > out.txt
done
cat package.json | wc -l; rm out.txt
