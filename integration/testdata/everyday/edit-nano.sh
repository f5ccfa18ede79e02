# nano at a terminal: types, saves, saves again.
# needs: nano
printf 'one\ntwo\n' > f
for i in 1 2; do
  cat f
  "$PYTHON" - <<'E'
import os, pty
pid, fd = pty.fork()
if pid == 0: os.execvp("nano", ["nano", "-I", "f"])
def expect(text):
    seen = b""
    while text not in seen: seen += os.read(fd, 65536)
expect(b"GNU nano")
for word in (b"first ", b"second "):
    os.write(fd, word); expect(b"Modified"); os.write(fd, b"\x0f"); expect(b"File Name to Write"); os.write(fd, b"\r"); expect(b"Wrote")
os.write(fd, b"\x18"); os.waitpid(pid, 0)
E
  cat f; sh -c 'sh -c "sed -i s/first/1st/ f; true"; true'; x=$(cat f); echo "$x" > f
done
rm f; echo end > f
