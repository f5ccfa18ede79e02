const fs = require('fs');
const [, path, increments, mode] = process.argv;
const say = (line) => fs.writeSync(1, line.replace(/\n/g, ' ') + '\n');
const sleep = (ms) => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);

say('ready');
fs.readSync(0, Buffer.alloc(1));
for (let i = 0; i < Number(increments); i++) {
  for (;;) {
    try {
      const counter = JSON.parse(fs.readFileSync(path, 'utf8'));
      counter.n += 1;
      sleep(1); // what a program does with what it has read
      fs.writeFileSync(path, JSON.stringify(counter));
      say('ok');
      break;
    } catch (e) {
      say(String(e));
    }
    if (mode !== 'retry') break;
    sleep(Math.random() * 20);
  }
}
