# A process reads, its child's child's child writes and leaves, five generations down, by fork alone.
"$PYTHON" - <<'E'
import os
def below(depth, what):
    pid = os.fork()
    if pid == 0:
        try:
            if depth: below(depth - 1, what)
            else: what()
        except BaseException as e: print(e, flush=True); os._exit(1)
        os._exit(0)
    if os.waitpid(pid, 0)[1]: raise SystemExit("failed below")
def put(name, text): open(name, "w").write(text)
put("f", "0")
for depth in range(8):
    x = open("f").read()
    below(depth, lambda: put("f", f"{depth}"))
    put("f", x + str(depth)); x = open("f").read()
    below(depth, lambda: (put("t", x + "r"), os.replace("t", "f")))
    open("f", "r+").write("R")
    below(depth, lambda: os.unlink("f")); put("f", x)
    below(depth, lambda: open("f", "a").write("a")); os.replace("f", "g"); below(depth, lambda: put("g", x)); os.replace("g", "f")
    below(depth, lambda: os.truncate("f", 3)); os.truncate("f", 2); put("f", x[:4])
print(open("f").read())
E
cat f; echo; echo end > f
