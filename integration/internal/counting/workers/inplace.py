import json, os, random, sys, time

path, increments, retry = sys.argv[1], int(sys.argv[2]), sys.argv[3] == "retry"
print("ready", flush=True)
sys.stdin.readline()


def buffered(counter):
    f = open(path, "r+")
    f.seek(0)
    json.dump(counter, f)
    f.truncate()
    f.close()


def cut_first(counter):
    with open(path, "r+") as f:
        f.truncate(0)
        json.dump(counter, f)


def unbuffered(counter):
    fd = os.open(path, os.O_RDWR)
    try:
        os.ftruncate(fd, os.pwrite(fd, json.dumps(counter).encode(), 0))
    finally:
        os.close(fd)


def kept_open(counter):
    global kept
    kept = open(path, "r+")  # closes the one before, which a refusal has left open
    json.dump(counter, kept)
    kept.truncate()
    kept.close()


kept = None
save = {"buffered": buffered, "cut": cut_first, "unbuffered": unbuffered, "kept-open": kept_open}[os.environ["SHAPE"]]


def increment():
    counter = json.load(open(path))
    counter["n"] += 1
    time.sleep(0.001)  # what a program does with what it has read
    save(counter)


for _ in range(increments):
    while True:
        try:
            increment()
            print("ok", flush=True)
            break
        except (OSError, ValueError) as e:
            print(f"{type(e).__name__}: {e}", flush=True)
        if not retry:
            break
        time.sleep(random.random() / 50)
