#!/usr/bin/env python3
"""One lock for a memory directory, in the manner of Clawdbot: a JSON file that is read,
checked and written, with its defects.

    clawdbot.py status
    clawdbot.py acquire [OPERATION]   and hold until standard input ends
    clawdbot.py release
    clawdbot.py break                 a stale lock
    clawdbot.py add TEXT              a task and its event, under the lock
    clawdbot.py twice TEXT            the same, and takes the lock again within
    clawdbot.py save TEXT             a task, without any lock, of what was read before

At the point that PAUSE names it says "at POINT" and waits for a line, or the end, of its
standard input. The limits are in seconds: WAIT, LIMIT for a lock of this host,
FOREIGN_LIMIT for one of another.
"""

import datetime
import json
import os
import socket
import sys
import time

LOCK = ".memory.lock"
WAIT = float(os.environ.get("WAIT", "5"))
LIMIT = float(os.environ.get("LIMIT", "30"))
FOREIGN_LIMIT = float(os.environ.get("FOREIGN_LIMIT", "10"))
SESSION = os.environ.get("CLAWDBOT_SESSION_ID", "unknown")


def pause(point):
    if os.environ.get("PAUSE") == point:
        print("at", point, flush=True)
        sys.stdin.readline()


def alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


class MemoryLock:
    def __init__(self, operation=""):
        self.operation = operation
        self.depth = 0

    def read(self):
        """The record, None if there is none, {} if it is malformed."""
        try:
            with open(LOCK, encoding="utf-8") as f:
                text = f.read()
        except FileNotFoundError:
            return None
        try:
            record = json.loads(text)
        except ValueError:
            return {}
        return record if isinstance(record, dict) else {}

    def stale(self, record):
        """Why a record is stale, or None."""
        if not record:
            return "lock file is malformed"
        age = time.time() - datetime.datetime.fromisoformat(record["acquired_at"]).timestamp()
        if record["hostname"] != socket.gethostname():
            return f"lock is {age:.1f}s old (>{FOREIGN_LIMIT:g}s)" if age > FOREIGN_LIMIT else None
        if not alive(record["pid"]):
            return f"process {record['pid']} is dead"
        return f"lock is {age:.1f}s old (>{LIMIT:g}s)" if age > LIMIT else None

    def mine(self, record):
        return bool(record) and (record["pid"], record["session_id"]) == (os.getpid(), SESSION)

    def write(self):
        record = {
            "pid": os.getpid(),
            "session_id": SESSION,
            "acquired_at": datetime.datetime.now(datetime.timezone.utc).isoformat(),
            "hostname": socket.gethostname(),
            "operation": self.operation,
        }
        text = json.dumps(record)
        with open(LOCK, "w", encoding="utf-8") as f:
            f.write(text[: len(text) // 2])
            f.flush()
            pause("torn")
            f.write(text[len(text) // 2 :])

    def try_acquire(self):
        """The record of who has it, or None if it is ours now."""
        record = self.read()
        if self.mine(record):
            return None
        if record is not None:
            why = self.stale(record)
            if why is None:
                return record
            print(f"Breaking stale lock: {why}", file=sys.stderr)
            try:
                os.remove(LOCK)
            except FileNotFoundError:
                pass
        pause("checked")
        self.write()
        return None

    def acquire(self, wait=WAIT):
        if self.depth == 0:
            deadline = time.monotonic() + wait
            while (record := self.try_acquire()) is not None:
                if time.monotonic() > deadline:
                    sys.exit(
                        f"Could not acquire lock within {wait:g}s. Held by session "
                        f"'{record['session_id']}' for operation '{record['operation']}'"
                    )
                time.sleep(0.02)
        self.depth += 1

    def release(self):
        self.depth -= 1
        if self.depth == 0 and self.mine(self.read()):
            os.remove(LOCK)

    def status(self):
        record = self.read()
        if record is None:
            return {"locked": False}
        why = self.stale(record)
        return {
            "locked": True,
            "holder": record,
            "is_stale": why is not None,
            "stale_reason": why,
            "we_hold_it": self.mine(record),
        }


def load():
    with open("tasks.json", encoding="utf-8") as f:
        return json.load(f)


def save(tasks, text):
    tasks["version"] += 1
    tasks["tasks"].append(text)
    with open("tasks.json", "w", encoding="utf-8") as f:
        json.dump(tasks, f)
    pause("saved")
    with open("events.jsonl", "a", encoding="utf-8") as f:
        f.write(json.dumps({"version": tasks["version"], "text": text}) + "\n")


def add(text):
    lock = MemoryLock("add " + text)
    lock.acquire()
    print("acquired", flush=True)
    tasks = load()
    pause("read")
    save(tasks, text)
    lock.release()


def main(command, *arguments):
    lock = MemoryLock(arguments[0] if arguments else command)
    if command == "status":
        print(json.dumps(lock.status()))
    elif command == "acquire":
        lock.acquire()
        print("acquired", flush=True)
        sys.stdin.read()
        lock.release()
    elif command == "release":
        record = lock.read()
        if record and not lock.mine(record):
            sys.exit(f"The lock is held by session '{record['session_id']}'")
    elif command == "break":
        record = lock.read()
        why = record is not None and lock.stale(record)
        if not why:
            sys.exit("There is no stale lock")
        print(f"Breaking stale lock: {why}", file=sys.stderr)
        os.remove(LOCK)
    elif command == "add":
        add(*arguments)
    elif command == "twice":
        lock.acquire()
        lock.acquire(0)
        save(load(), *arguments)
        lock.release()
        lock.release()
    elif command == "save":
        tasks = load()
        pause("read")
        save(tasks, *arguments)
    else:
        sys.exit(2)


main(*sys.argv[1:])
