# node reads and writes what its children change.
# needs: node
node - <<'E'
const fs = require('fs'), { execSync, spawnSync } = require('child_process')
fs.writeFileSync('f.json', '{"n":0}')
const read = () => JSON.parse(fs.readFileSync('f.json', 'utf8')), write = (d) => fs.writeFileSync('f.json', JSON.stringify(d))
for (let i = 0; i < 2; i++) {
  let d = read(); d.n++; write(d)
  execSync(`sh -c "sh -c 'sed -i s/$/\\ / f.json; true'; true"; true`)
  d = read(); d.n++; fs.writeFileSync('t', JSON.stringify(d)); fs.renameSync('t', 'f.json')
  spawnSync('bash', ['-c', `bash -c "cp f.json g; mv g f.json; true"; true`])
  d.n++; write(d); fs.copyFileSync('f.json', 'g'); fs.unlinkSync('f.json'); fs.renameSync('g', 'f.json')
  fs.appendFileSync('f.json', '\n'); fs.truncateSync('f.json', fs.statSync('f.json').size - 1)
}
console.log(read()); fs.mkdirSync('d'); fs.writeFileSync('d/f', 'x'); execSync('sh -c "echo y > d/f; true"; true')
fs.rmSync('d', { recursive: true }); write({ end: true })
fs.promises.readFile('f.json', 'utf8').then((d) => fs.promises.writeFile('f.json', d + '\n')).then(() => console.log('done'))
E
cat f.json; echo '{}' > f.json
