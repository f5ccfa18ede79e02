# Worker processes of one program change files that it has read and will write.
# chance
"$PYTHON" - <<'E'
import concurrent.futures, multiprocessing, os, subprocess
def step(name):
    n = int(open(name).read()); open(name, "w").write(str(n + 1))
    subprocess.run(["sh", "-c", f"sh -c 'sed -i s/$/0/ {name}; true'; true"], check=True)
    return os.path.basename(name)
if __name__ == "__main__":
    os.mkdir("d"); names = [f"d/{i}" for i in range(4)]
    for n in names: open(n, "w").write("0")
    ctx = multiprocessing.get_context("fork")
    for r in range(2):
        print([open(n).read() for n in names])
        with concurrent.futures.ProcessPoolExecutor(2, mp_context=ctx) as pool: print(list(pool.map(step, names)))
        for n in names: x = open(n).read(); open(n, "w").write(str(int(x) % 7))
    print([open(n).read() for n in names])
    for n in names: os.unlink(n)
E
rmdir d
