# node reads, child processes at several depths write, promises and streams in between.
# needs: node
node - <<'E'
const fs = require('fs'), cp = require('child_process'), p = fs.promises
const nested = (n, c) => { for (let i = 0; i < n; i++) c = `sh -c ${JSON.stringify(c + '; true').replace(/\$/g, '\\$')}; true`; cp.execSync(c) }
;(async () => {
  await p.writeFile('f', '0')
  for (let i = 0; i < 4; i++) {
    const d = await p.readFile('f', 'utf8')
    nested(i, 'echo below > f')
    await p.writeFile('f', d + i)
    await new Promise((ok) => fs.createReadStream('f').pipe(fs.createWriteStream('g')).on('close', ok))
    nested(i, 'cat f g > t; mv t g')
    await p.rename('g', 'f'); const h = await p.open('f', 'r+'); await h.write('X', 0); await h.truncate(3); await h.close()
    nested(i, 'rm f; echo again > f'); await p.copyFile('f', 'g'); await p.rm('f'); await p.rename('g', 'f'); await p.appendFile('f', 'end')
  }
  console.log(await p.readFile('f', 'utf8')); await p.writeFile('f', 'done\n')
})()
E
cat f; echo end > f
