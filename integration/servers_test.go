package integration

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// Database servers run under the default policy as on a plain directory, and what one
// has acknowledged is there after it was killed. Each test skips where its server is
// not installed: make servers installs them all.

// serve runs a script as an ordinary user, for some servers refuse to run as root, in
// a new directory of its user's. The script must exit with 0.
func (m *Mount) serve(t *testing.T, dir, interpreter, script string, argv ...string) string {
	t.Helper()
	m.Mkdir(dir)
	sockets, err := os.MkdirTemp("", "s-") // the name of a socket must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(sockets) })
	argv = append([]string{interpreter, "-c", script, m.Path(dir), sockets}, argv...)
	if interpreter == "bash" {
		argv = append([]string{"bash", "-c", script, "bash", m.Path(dir), sockets}, argv[5:]...)
	}
	if os.Geteuid() == 0 {
		uid := strconv.Itoa(ordinaryUID)
		if o := m.Run(t, "chown", uid, m.Path(dir)); o.Code != 0 {
			t.Fatal(o.Stderr)
		}
		if err := os.Chown(sockets, ordinaryUID, ordinaryUID); err != nil {
			t.Fatal(err)
		}
		if m.UID == 0 {
			argv = append([]string{"setpriv", "--reuid", uid, "--regid", uid, "--clear-groups"}, argv...)
		}
	}
	out := m.Launch(t, "env", append([]string{"TMPDIR=" + sockets}, argv...)...).OK()
	m.noBypass(t)
	if o := m.Run(t, "rm", "-r", m.Path(dir)); o.Code != 0 {
		t.Errorf("rm: %s", o.Stderr)
	}
	return out
}

const redisScript = `
import os, subprocess, sys, time
dir, sockets, rounds = sys.argv[1], sys.argv[2], int(sys.argv[3])
sock = sockets + "/redis"
def cli(*args):
    return subprocess.run(["redis-cli", "-s", sock, *args], capture_output=True, text=True).stdout.strip()
def start():
    # Debian's server is this file of redis-tools; the package redis-server is a service.
    p = subprocess.Popen(["redis-server", "--dir", dir, "--port", "0", "--unixsocket", sock, "--save", "",
                          "--appendonly", "yes", "--appendfsync", "always"],
                         executable=sys.argv[4], stdout=open(sockets + "/log", "a"))
    until = time.time() + 60
    while cli("ping") != "PONG":
        if p.poll() is not None or time.time() > until:
            sys.exit("redis does not start:\n" + open(sockets + "/log").read())
        time.sleep(0.02)
    return p
for round in range(rounds):
    p = start()
    want = int(cli("dbsize"))
    for i in range(40):
        if i == 10: assert cli("save") == "OK"
        if i in (20, 39): cli("bgrewriteaof")
        want += cli("set", f"{round}-{i}", "x" * 100) == "OK"
    want += cli("set", f"{round}-last", "x") == "OK"
    p.kill(); p.wait()
    p = start()
    got = int(cli("dbsize"))
    if got < want:
        sys.exit(f"round {round}: {want} keys were acknowledged, {got} are there")
    p.terminate(); p.wait()
print(want)
`

// Redis with every write synced, killed right after it has begun to rewrite its log.
func TestServerRedis(t *testing.T) {
	inTestAll(t)
	alongside(t)
	requireTool(t, "redis-cli")
	server, err := exec.LookPath("redis-server")
	if err != nil {
		server, err = exec.LookPath("redis-check-rdb")
	}
	if err != nil {
		t.Skip("redis-server is not installed")
	}
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.serve(t, "redis", bench.python, redisScript, strconv.Itoa(repeat(1, 20)), server)
	})
}

const levelDBScript = `
import os, subprocess, sys
import plyvel
dir = sys.argv[1] + "/db"
if sys.argv[2] == "write":
    db = plyvel.DB(dir, create_if_missing=True, write_buffer_size=20000)
    for i in range(int(sys.argv[3]), 1 << 30):
        db.put(b"%08d" % i, b"x" * 100, sync=True)
        os.write(1, b"%d\n" % (i + 1))
have = 0
for round in range(int(sys.argv[3])):
    p = subprocess.Popen([sys.executable, "-c", open("/proc/self/cmdline").read().split("\0")[2], sys.argv[1], "write", str(have)], stdout=subprocess.PIPE)
    acknowledged = have
    for line in p.stdout:
        acknowledged = int(line)
        if acknowledged == have + 300:
            p.kill() # what it says before it is dead counts
    p.wait()
    if acknowledged < have + 300:
        sys.exit(f"round {round}: the writer has ended after {acknowledged - have} keys")
    db = plyvel.DB(dir)
    have = sum(1 for _ in db)
    db.close()
    if have < acknowledged:
        sys.exit(f"round {round}: {acknowledged} keys were acknowledged, {have} are there")
print(have)
`

// LevelDB with every write synced, killed while it writes and compacts.
func TestServerLevelDB(t *testing.T) {
	inTestAll(t)
	alongside(t)
	if exec.Command(bench.python, "-c", "import plyvel").Run() != nil {
		t.Skip("python3-plyvel is not installed")
	}
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.serve(t, "leveldb", bench.python, levelDBScript, strconv.Itoa(repeat(1, 30)))
	})
}

// RocksDB, opened and closed for every key.
func TestServerRocksDB(t *testing.T) {
	inTestAll(t)
	alongside(t)
	requireTool(t, "ldb")
	forEachMount(t, func(t *testing.T, m *Mount) {
		out := m.serve(t, "rocksdb", "bash", `cd "$1" || exit
			for i in $(seq "$3"); do ldb --db=db --create_if_missing put "k$i" "v$i" || exit; done >/dev/null
			ldb --db=db compact && ldb --db=db checkconsistency && ldb --db=db scan | grep -c ' : '`, strconv.Itoa(repeat(10, 300)))
		if want := "OK\n" + strconv.Itoa(repeat(10, 300)) + "\n"; !strings.HasSuffix(out, want) {
			t.Errorf("%q, want %q at its end", out, want)
		}
	})
}

const postgresScript = `
set -e
export PATH="$4:$PATH" LC_ALL=C
initdb -N -D "$1/pg" -A trust -U test >"$2/initdb" 2>&1 || { cat "$2/initdb"; exit 1; }
start() { pg_ctl -D "$1/pg" -o "-k $2 -h ''" -l "$2/log" -w -t 120 start >/dev/null || { cat "$2/log"; exit 1; }; }
start "$1" "$2"
export PGHOST=$2 PGUSER=test PGDATABASE=postgres
pgbench -i -s 2 -q >/dev/null 2>&1
pgbench -n -c 8 -j 2 -T "$3" 2>&1 | grep -E 'actually processed|number of failed|^tps'
pgbench -n -c 8 -j 2 -T 600 >/dev/null 2>&1 & clients=$!
before=$(psql -Atc 'select count(*) from pgbench_history')
until [ "$(psql -Atc 'select count(*) from pgbench_history')" -gt $((before + 100)) ]; do sleep 0.1; done
acknowledged=$(psql -Atc 'select count(*) from pgbench_history')
pg_ctl -D "$1/pg" -m immediate stop >/dev/null
wait $clients || true
start "$1" "$2"
psql -Atc "select case when count(*) >= $acknowledged then 'all there' else 'LOST: ' || count(*) end from pgbench_history"
psql -Atc "select case when h = a and h = b and h = t then 'consistent' else 'INCONSISTENT' end from
	(select sum(delta) h from pgbench_history) h, (select sum(abalance) a from pgbench_accounts) a,
	(select sum(bbalance) b from pgbench_branches) b, (select sum(tbalance) t from pgbench_tellers) t"
for sql in 'vacuum full' 'reindex database postgres' checkpoint; do psql -qAtc "$sql"; done
pg_ctl -D "$1/pg" -m fast stop >/dev/null
pg_controldata -D "$1/pg" | grep 'cluster state'
! grep -E 'PANIC|could not' "$2/log" | grep -v 'could not \(send data to\|receive data from\) client'
`

// PostgreSQL: initdb, pgbench with 8 clients, an immediate shutdown amid their
// transactions, and recovery.
func TestServerPostgreSQL(t *testing.T) {
	inTestAll(t)
	alongside(t)
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if len(found) == 0 {
		t.Skip("postgresql is not installed")
	}
	bin := filepath.Dir(found[len(found)-1])
	forEachMount(t, func(t *testing.T, m *Mount) {
		if !stress() && m.Name == "root-nopassthrough" {
			t.Skip("it takes its time, and is run as an ordinary user without passthrough")
		}
		out := m.serve(t, "postgresql", "bash", postgresScript, strconv.Itoa(repeat(2, 60)), bin)
		t.Log(out)
		for _, want := range []string{"number of failed transactions: 0 ", "all there\n", "consistent\n", "shut down\n"} {
			if !strings.Contains(out, want) || strings.Contains(out, "INCONSISTENT") {
				t.Errorf("%q is not in\n%s", want, out)
			}
		}
	})
}

const mariaDBScript = `
mariadb-install-db --no-defaults --datadir="$1/db" --auth-root-authentication-method=normal --skip-test-db >"$2/install" 2>&1 || { cat "$2/install"; exit 1; }
q() { mariadb --no-defaults -S "$sock" "$@"; }
start() {
	mariadbd --no-defaults --datadir="$dir" --socket="$sock" --skip-networking --pid-file="$sock.pid" \
		--innodb-buffer-pool-size=32M --skip-grant-tables >>"$sock.log" 2>&1 & server=$!
	until q -e 'select 1' >/dev/null 2>&1; do
		kill -0 "$server" 2>/dev/null || { cat "$sock.log"; exit 1; }
		sleep 0.05
	done
}
dir=$1/db sock=$2/s
start
q -e 'create database b; create table b.sums(id int primary key, n bigint) engine=innodb;
	insert into b.sums values (1,0), (2,0), (3,0), (4,0);
	create table b.log(w int, i int, primary key(w, i)) engine=innodb; create table b.aria(w int, i int) engine=aria'
workers=
for w in 1 2 3 4; do
	while :; do
		i=$((i + 1))
		q b -e "begin; update sums set n = n + 1 where id = $w; insert into log values ($w, $i); commit; insert into aria values ($w, $i)" 2>/dev/null || break
		echo "$i" >>"$sock.done.$w"
	done & workers="$workers $!"
done
until [ "$(cat "$sock".done.* 2>/dev/null | wc -l)" -ge "$3" ]; do sleep 0.05; done
kill -KILL "$server"; wait "$server" $workers 2>/dev/null
acknowledged=$(cat "$sock".done.* | wc -l)
start
q -Ne "select if(count(*) >= $acknowledged, 'all there', concat('LOST: ', count(*), ' of $acknowledged')) from b.log;
	select if((select sum(n) from b.sums) = (select count(*) from b.log), 'consistent', 'NOT SO')"
mariadb-check --no-defaults -S "$sock" --all-databases --auto-repair 2>&1 | grep -iE 'corrupt|error.*:'
kill "$server"; wait "$server"
! grep -E '\[ERROR\]|ot signal' "$sock.log"
`

// MariaDB, killed amid the transactions of four clients, and its recovery.
func TestServerMariaDB(t *testing.T) {
	inTestAll(t)
	alongside(t)
	requireTool(t, "mariadb-install-db", "mariadbd", "mariadb", "mariadb-check")
	forEachMount(t, func(t *testing.T, m *Mount) {
		out := m.serve(t, "mariadb", "bash", mariaDBScript, strconv.Itoa(repeat(50, 600)))
		if out != "all there\nconsistent\n" {
			t.Error(out)
		}
	})
}
