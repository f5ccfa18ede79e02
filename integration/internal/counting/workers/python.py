import json, random, sys, time

path, increments, retry = sys.argv[1], int(sys.argv[2]), sys.argv[3] == "retry"
print("ready", flush=True)
sys.stdin.readline()


def increment():
    counter = json.load(open(path))
    counter["n"] += 1
    time.sleep(0.001)  # what a program does with what it has read
    json.dump(counter, open(path, "w"))


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
