# A dependency is installed from a directory, changed, installed again and removed.
# needs: npm node
# varies: package(-lock)?\.json|.*\.tgz|node_modules/\.package-lock\.json
export npm_config_update_notifier=false npm_config_fund=false npm_config_audit=false npm_config_offline=true npm_config_cache=$OUT/cache
mkdir dep; echo '{"name":"dep","version":"1.0.0","main":"i.js"}' > dep/package.json; echo 'module.exports = "one"' > dep/i.js
echo '{"name":"app","version":"1.0.0","private":true}' > package.json
npm install --silent --install-links ./dep > /dev/null
node -p 'require("dep")'; cat package.json node_modules/dep/i.js > "$OUT/seen"
echo 'module.exports = "patched"' > node_modules/dep/i.js; node -p 'require("dep")'
sed -i s/one/two/ dep/i.js
npm install --silent --install-links --force ./dep > /dev/null; cat node_modules/dep/i.js > "$OUT/seen"
npm uninstall --silent dep > /dev/null; rm -rf node_modules package-lock.json
echo '{"name":"app","version":"2.0.0"}' > package.json; node -p 'require("./package.json").version'
