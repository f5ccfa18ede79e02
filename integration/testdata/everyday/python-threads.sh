# Threads take turns on one file, and shells of theirs too.
"$PYTHON" - <<'E'
import subprocess, threading
lock = threading.Lock()
open("f", "w").write("0")
def work(i):
    for _ in range(3):
        with lock:
            n = int(open("f").read())
            if i % 2: open("f", "w").write(str(n + 1))
            else: subprocess.run(["sh", "-c", f"sh -c 'echo {n + 1} > f; true'; true"], check=True)
ts = [threading.Thread(target=work, args=(i,)) for i in range(4)]
[t.start() for t in ts]; [t.join() for t in ts]
print(open("f").read().strip()); open("f", "w").write("end\n")
E
cat f; echo over > f
