# The same random calls of three ordinary users in a plain directory and in the mount:
# rights.py PLAIN MOUNT COUNT SEED. It runs as root, makes the users' processes, and
# says where the two directories differ.
import ctypes, errno, os, pickle, random, shutil, socket, stat, struct, sys

plain, mount, count, seed = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
rnd = random.Random(seed)
libc = ctypes.CDLL(None, use_errno=True)
ALICE, BOB, CAROL, TEAM = 61001, 61002, 61003, 61500
USERS = {ALICE: [TEAM], BOB: [TEAM], CAROL: []}
MODES = [0o644, 0o600, 0o666, 0o664, 0o640, 0o755, 0o4755, 0o2755, 0o6777, 0o2745, 0o1777, 0o000, 0o4644, 0o2644, 0o2660, 0o6755]
DIRS = ["sticky", "setgid", "team", "acl", "default", "defaultsetgid", "search", "readonly", "private", "stickysetgid"]
NAMES = ["f", "g", "h", "d", "d/f", "l", "suid", "sgid", "roots"]
ACCESS, DEFAULT = "system.posix_acl_access", "system.posix_acl_default"

def acl(*entries):
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHi", tag, perm, who) for tag, perm, who in entries)

ACLS = [
    acl((1, 7, -1), (2, 7, BOB), (4, 0, -1), (16, 7, -1), (32, 0, -1)),
    acl((1, 6, -1), (2, 4, CAROL), (4, 6, -1), (8, 7, TEAM), (16, 5, -1), (32, 4, -1)),
    acl((1, 7, -1), (2, 0, BOB), (4, 5, -1), (16, 7, -1), (32, 5, -1)),
    acl((1, 6, -1), (4, 4, -1), (32, 0, -1)),
]

def prepare(root):
    def make(name, mode, uid=0, gid=0):
        os.mkdir(f"{root}/{name}")
        os.chown(f"{root}/{name}", uid, gid)
        os.chmod(f"{root}/{name}", mode)
    make("sticky", 0o1777); make("setgid", 0o2777, 0, TEAM); make("team", 0o770, 0, TEAM)
    make("acl", 0o700, ALICE, ALICE); make("default", 0o777); make("defaultsetgid", 0o2777, 0, TEAM)
    make("search", 0o711); make("readonly", 0o755); make("private", 0o700, ALICE, ALICE)
    make("stickysetgid", 0o3777, 0, TEAM)
    os.setxattr(f"{root}/acl", ACCESS, ACLS[0])
    os.setxattr(f"{root}/default", DEFAULT, ACLS[1])
    os.setxattr(f"{root}/defaultsetgid", DEFAULT, ACLS[2])
    for d in DIRS:
        for name, uid, gid, mode in [("f", ALICE, ALICE, 0o644), ("g", BOB, TEAM, 0o664), ("suid", ALICE, TEAM, 0o6755), ("sgid", BOB, TEAM, 0o2666), ("roots", 0, 0, 0o6777)]:
            path = f"{root}/{d}/{name}"
            with open(path, "w") as f:
                f.write("first\n")
            os.chown(path, uid, gid)
            os.chmod(path, mode)

def sys2(call, *args):
    if call(*args) != 0:
        raise OSError(ctypes.get_errno(), "")

def opened(path, flags, mode, data):
    fd = os.open(path, flags, mode)
    try:
        if flags & os.O_ACCMODE == os.O_RDONLY:
            return os.read(fd, 100)
        if data:
            os.write(fd, data)
    finally:
        os.close(fd)

def tmpfile(path, flags, mode, name):
    fd = os.open(path, os.O_TMPFILE | os.O_RDWR | flags, mode)
    try:
        os.write(fd, b"temporary\n")
        sys2(libc.linkat, -100, f"/proc/self/fd/{fd}".encode(), -100, name.encode(), 0x400)
    finally:
        os.close(fd)

def with_fd(path, flags, do):
    fd = os.open(path, flags)
    try:
        return do(fd)
    finally:
        os.close(fd)

def bind(path):
    s = socket.socket(socket.AF_UNIX)
    try:
        s.bind(path)
    finally:
        s.close()

OPS = {
    "open": lambda p, a: opened(p(a[0]), a[1], a[2], a[3]),
    "mkdir": lambda p, a: os.mkdir(p(a[0]), a[1]),
    "mknod": lambda p, a: os.mknod(p(a[0]), a[1] | a[2]),
    "bind": lambda p, a: bind(p(a[0])),
    "symlink": lambda p, a: os.symlink(a[1], p(a[0])),
    "tmpfile": lambda p, a: tmpfile(p(a[0]), a[1], a[2], p(a[3])),
    "link": lambda p, a: os.link(p(a[0]), p(a[1]), follow_symlinks=False),
    "rename": lambda p, a: sys2(libc.renameat2, -100, p(a[0]).encode(), -100, p(a[1]).encode(), a[2]),
    "unlink": lambda p, a: os.unlink(p(a[0])),
    "rmdir": lambda p, a: os.rmdir(p(a[0])),
    "chmod": lambda p, a: os.chmod(p(a[0]), a[1]),
    "lchown": lambda p, a: os.lchown(p(a[0]), a[1], a[2]),
    "fchown": lambda p, a: with_fd(p(a[0]), os.O_RDONLY | os.O_NONBLOCK, lambda fd: os.fchown(fd, a[1], a[2])),
    "fchmod": lambda p, a: with_fd(p(a[0]), os.O_RDONLY | os.O_NONBLOCK, lambda fd: os.fchmod(fd, a[1])),
    "truncate": lambda p, a: os.truncate(p(a[0]), a[1]),
    "utime": lambda p, a: os.utime(p(a[0]), a[1]),
    "setxattr": lambda p, a: os.setxattr(p(a[0]), a[1], a[2]),
    "removexattr": lambda p, a: os.removexattr(p(a[0]), a[1]),
    "getxattr": lambda p, a: os.getxattr(p(a[0]), a[1]),
    "access": lambda p, a: os.access(p(a[0]), a[1], effective_ids=True),
    "list": lambda p, a: sorted(os.listdir(p(a[0]))),
    "lstat": lambda p, a: shown(os.lstat(p(a[0]))),
    "readlink": lambda p, a: os.readlink(p(a[0])),
}

def shown(st):
    size = 0 if stat.S_ISDIR(st.st_mode) else st.st_size
    return oct(st.st_mode), st.st_uid, st.st_gid, st.st_nlink, size, st.st_rdev

def draw():
    d = rnd.choice(DIRS)
    n = lambda: f"{d}/{rnd.choice(NAMES)}"
    mode, who = rnd.choice(MODES), rnd.choice([-1, -1, ALICE, BOB, CAROL])
    group = rnd.choice([-1, -1, ALICE, BOB, TEAM])
    flags = rnd.choice([os.O_RDONLY, os.O_WRONLY, os.O_RDWR, os.O_WRONLY | os.O_TRUNC, os.O_WRONLY | os.O_APPEND, os.O_RDWR | os.O_TRUNC])
    flags |= rnd.choice([0, 0, os.O_CREAT, os.O_CREAT, os.O_CREAT | os.O_EXCL]) | os.O_NONBLOCK
    acls = rnd.choice([ACCESS, DEFAULT])
    op, args = rnd.choice([
        ("open", (n(), flags, mode, rnd.choice([b"", b"line\n", b"x" * 20]))),
        ("open", (n(), flags, mode, b"other\n")),
        ("open", (n(), os.O_WRONLY | os.O_APPEND | os.O_NONBLOCK, 0, b"appended\n")),
        ("open", (n(), os.O_WRONLY | os.O_TRUNC | os.O_NONBLOCK, 0, b"again\n")),
        ("mkdir", (n(), mode)),
        ("mknod", (n(), stat.S_IFREG, mode)), ("mknod", (n(), stat.S_IFIFO, mode)),
        ("bind", (n(),)),
        ("symlink", (n(), rnd.choice(["f", "g", "../readonly/f", "nowhere"]))),
        ("tmpfile", (d, rnd.choice([0, 0, os.O_EXCL]), mode, n())),
        ("link", (n(), n())),
        ("rename", (n(), n(), rnd.choice([0, 0, 1, 2]))), ("rename", (n(), n(), 0)),
        ("unlink", (n(),)), ("rmdir", (n(),)),
        ("chmod", (n(), mode)), ("fchmod", (n(), mode)), ("chmod", (n(), mode)),
        ("lchown", (n(), who, group)), ("lchown", (n(), -1, -1)), ("lchown", (n(), -1, -1)),
        ("lchown", (n(), -1, TEAM)), ("fchown", (n(), who, group)), ("fchown", (n(), -1, -1)),
        ("truncate", (n(), rnd.choice([0, 3, 100]))),
        ("utime", (n(), rnd.choice([None, (1000, 2000)]))),
        ("setxattr", (n(), "user.mark", b"x")), ("setxattr", (n(), acls, rnd.choice(ACLS))), ("setxattr", (n(), acls, rnd.choice(ACLS))),
        ("setxattr", (n(), rnd.choice(["trusted.x", "security.capability"]), b"x")),
        ("removexattr", (n(), rnd.choice(["user.mark", acls]))), ("getxattr", (n(), rnd.choice(["user.mark", acls]))),
        ("access", (n(), rnd.choice([os.R_OK, os.W_OK, os.X_OK]))), ("list", (d,)), ("lstat", (n(),)), ("readlink", (n(),)),
    ])
    return rnd.choice(list(USERS)), rnd.choice([0, 0o022, 0o077, 0o002]), op, args

def attempt(root, op, args):
    try:
        return OPS[op](lambda name: f"{root}/{name}", args)
    except OSError as e:
        return errno.errorcode.get(e.errno, e.errno)

class User:
    """A process of one user that does what it is told on both sides."""
    def __init__(self, uid, groups):
        ask, self.out = os.pipe()
        self.answer, reply = os.pipe()
        if os.fork() == 0:
            os.close(self.out)
            os.setgroups(groups); os.setresgid(uid, uid, uid); os.setresuid(uid, uid, uid)
            inp, outp = os.fdopen(ask, "rb"), os.fdopen(reply, "wb")
            while True:
                try:
                    umask, op, args = pickle.load(inp)
                except EOFError:
                    os._exit(0)
                os.umask(umask)
                pickle.dump([attempt(root, op, args) for root in (plain, mount)], outp)
                outp.flush()
        os.close(ask); os.close(reply)
        self.out, self.answer = os.fdopen(self.out, "wb"), os.fdopen(self.answer, "rb")

    def do(self, *request):
        pickle.dump(request, self.out)
        self.out.flush()
        return pickle.load(self.answer)

def look(root, name):
    path = f"{root}/{name}"
    try:
        st = os.lstat(path)
    except OSError as e:
        return errno.errorcode[e.errno]
    seen = [shown(st)]
    if stat.S_ISREG(st.st_mode):
        with open(path, "rb") as f:
            seen.append(f.read())
    if not stat.S_ISLNK(st.st_mode):
        seen.append({a: os.getxattr(path, a) for a in sorted(os.listxattr(path))})
    return seen

def touched(op, args):
    return [args[0]] + ([args[1]] if op in ("link", "rename") else [args[3]] if op == "tmpfile" else [])

os.umask(0)
prepare(plain); prepare(mount)
users = {uid: User(uid, groups) for uid, groups in USERS.items()}
differ, done = 0, 0
for i in range(count):
    uid, umask, op, args = draw()
    a, b = users[uid].do(umask, op, args)
    done += not isinstance(a, str)
    what = f"{i}: {uid} umask {umask:03o} {op} {args!r}"
    if a != b:
        differ += 1
        print(f"{what}\n  plain {a}\n  mount {b}")
    for name in touched(op, args):
        x, y = look(plain, name), look(mount, name)
        if x != y:
            differ += 1
            print(f"{what}: {name}\n  plain {x}\n  mount {y}")
    if differ > 5:
        break
    if i % 50 == 49: # a user's own directories are reused, so that the tree stays small
        d = rnd.choice(DIRS)
        for root in (plain, mount):
            for name in ("h", "l", "d"):
                path = f"{root}/{d}/{name}"
                try:
                    shutil.rmtree(path) if stat.S_ISDIR(os.lstat(path).st_mode) else os.unlink(path)
                except OSError:
                    pass
for root, dirs, files in os.walk(plain):
    for name in dirs + files:
        path = os.path.relpath(f"{root}/{name}", plain)
        x, y = look(plain, path), look(mount, path)
        if x != y:
            differ += 1
            print(f"in the end: {path}\n  plain {x}\n  mount {y}")
print(f"{count} calls, {done} successful, {differ} differences", file=sys.stderr)
sys.exit(1 if differ else 0)
