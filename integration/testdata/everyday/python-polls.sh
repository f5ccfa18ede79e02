# A program writes a file that three children of it do nothing but read.
# chance
"$PYTHON" - <<'E'
import os, signal
open("f", "w").write("0\n")
children = []
for _ in range(3):
    pid = os.fork()
    if pid == 0:
        while True: open("f").read()
    children.append(pid)
try:
    for i in range(100): open("f", "w").write(f"{i}\n")
finally:
    for pid in children: os.kill(pid, signal.SIGKILL); os.waitpid(pid, 0)
E
cat f; echo end > f
