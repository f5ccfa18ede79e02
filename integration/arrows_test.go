package integration

import (
	"encoding/json"
	"errors"
	"go/ast"
	goparser "go/parser"
	"go/token"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A room is a package and what it may stand on. The arrows point downwards only,
// and lockmgr and journal do not know each other; fs joins them.
type room struct {
	ours []string // packages of this module
	libs []string // modules of others
	not  []string // packages of the standard library that it has no business with

	tests []string // packages of this module that its tests use on top
}

const (
	goFuse  = "github.com/hanwen/go-fuse/v2"
	xSys    = "golang.org/x/sys"
	anyRoom = "latchfs" // stands for all packages of this module
)

// rooms has every package. A new one has to be put here, with a reason for what
// it imports; .golangci.yml holds the same arrows.
var rooms = map[string]room{
	"latchfs/lockmgr/internal/rules": { // whether two locks conflict: pure
		not: []string{"io", "io/fs", "log", "net", "os", "path/filepath", "sync", "syscall", "time"},
	},
	"latchfs/lockmgr/internal/keytree": { // the tree of the keys: pure
		not: []string{"io", "io/fs", "log", "net", "os", "path/filepath", "sync", "syscall", "time"},
	},
	"latchfs/lockmgr/internal/lease": { // when a lease has expired: pure
		not: []string{"io", "io/fs", "log", "net", "os", "path/filepath", "sync", "syscall"},
	},
	"latchfs/lockmgr/internal/list": { // a list in its elements: pure
		not: []string{"io", "io/fs", "log", "net", "os", "path/filepath", "sync", "syscall", "time"},
	},
	"latchfs/lockmgr/internal/owners": { // what belongs to each owner: pure
		ours: []string{"latchfs/lockmgr/internal/list", "latchfs/lockmgr/internal/rules"},
		not:  []string{"io", "io/fs", "log", "net", "os", "path/filepath", "sync", "syscall", "time"},
	},
	"latchfs/lockmgr/internal/places": { // where locks stand, and who is in whose way there: pure
		ours: []string{"latchfs/lockmgr/internal/keytree", "latchfs/lockmgr/internal/list", "latchfs/lockmgr/internal/rules"},
		not:  []string{"io", "io/fs", "log", "net", "os", "path/filepath", "sync", "syscall", "time"},
	},
	"latchfs/lockmgr/internal/ranks": { // a list whose elements know who comes first: pure
		ours: []string{"latchfs/lockmgr/internal/list"},
		not:  []string{"io", "io/fs", "log", "net", "os", "path/filepath", "sync", "syscall", "time"},
	},
	"latchfs/lockmgr/internal/describe": { // how the lock table tells of locks: pure
		ours: []string{"latchfs/lockmgr/internal/keytree", "latchfs/lockmgr/internal/rules"},
		not:  []string{"io", "io/fs", "log", "net", "os", "path/filepath", "sync", "syscall"},
	},
	"latchfs/lockmgr/internal/turns": { // whom a waiter needs before itself: pure
		not: []string{"io", "io/fs", "log", "net", "os", "path/filepath", "sync", "syscall", "time"},
	},
	"latchfs/lockmgr": { // pure: no I/O, no FUSE, no paths, no clock of its own
		ours: []string{"latchfs/lockmgr/internal/describe", "latchfs/lockmgr/internal/keytree", "latchfs/lockmgr/internal/lease", "latchfs/lockmgr/internal/list", "latchfs/lockmgr/internal/owners", "latchfs/lockmgr/internal/places", "latchfs/lockmgr/internal/ranks", "latchfs/lockmgr/internal/rules", "latchfs/lockmgr/internal/turns"},
		not: []string{"embed", "io", "io/fs", "log", "log/slog", "net", "os", "os/exec", "os/signal",
			"path", "path/filepath", "syscall", "unsafe"},
	},
	"latchfs/lockmgr/knowledge": { // pure like the lock table
		ours: []string{"latchfs/lockmgr"},
		not: []string{"embed", "io", "io/fs", "log", "log/slog", "net", "os", "os/exec", "os/signal",
			"path", "path/filepath", "syscall", "unsafe"},
	},
	"latchfs/lockmgr/programs": { // pure like the lock table
		ours: []string{"latchfs/lockmgr"},
		not: []string{"embed", "io", "io/fs", "log", "log/slog", "net", "os", "os/exec", "os/signal",
			"path", "path/filepath", "syscall", "unsafe"},
	},
	"latchfs/lockmgr/policy/internal/glob": { // which paths a glob matches: pure
		libs: []string{"github.com/bmatcuk/doublestar/v4"}, not: []string{"io", "io/fs", "log", "net", "os", "path/filepath", "sync", "syscall", "time"},
	},
	"latchfs/lockmgr/policy/internal/naming": { // which names there may be: pure
		not: []string{"io", "io/fs", "log", "net", "os", "path/filepath", "sync", "syscall", "time"},
	},
	"latchfs/lockmgr/policy/internal/position": { // on which line what is written: pure
		libs: []string{"github.com/pelletier/go-toml/v2"}, not: []string{"io", "io/fs", "log", "net", "os", "path/filepath", "sync", "syscall", "time"},
	},
	"latchfs/lockmgr/policy/internal/reading": { // how values are written, and what is wrong with them: pure
		ours: []string{"latchfs/lockmgr/policy/internal/position"}, libs: []string{"github.com/pelletier/go-toml/v2"},
		not: []string{"io", "io/fs", "log", "net", "os", "path/filepath", "sync", "syscall"},
	},
	"latchfs/lockmgr/policy/lockfile": { // what lock files stand for by their paths; what is in them claimfile reads: pure
		ours: []string{"latchfs/lockmgr/policy/internal/glob", "latchfs/lockmgr/policy/internal/naming", "latchfs/lockmgr/policy/internal/position", "latchfs/lockmgr/policy/internal/reading"},
		not:  []string{"io", "io/fs", "log", "net", "os", "path/filepath", "sync", "syscall"},
	},
	"latchfs/lockmgr/policy": {
		ours: []string{"latchfs/lockmgr/policy/internal/glob", "latchfs/lockmgr/policy/internal/naming", "latchfs/lockmgr/policy/internal/position", "latchfs/lockmgr/policy/internal/reading",
			"latchfs/lockmgr/policy/lockfile"}, libs: []string{"github.com/bmatcuk/doublestar/v4", "github.com/pelletier/go-toml/v2"},
	},
	"latchfs/examples/policies": { // the presets, as text
		not: []string{"io", "io/fs", "log", "net", "os", "syscall"},
	},
	"latchfs/lockmgr/proc/internal/procfs": { // files and their formats; whose they are is none of its business
		libs: []string{xSys}, not: []string{"net", "log"},
	},
	"latchfs/lockmgr/proc/internal/ends": { // that processes die, and how; how to look at one comes in
		ours: []string{"latchfs/lockmgr/proc/internal/patience", "latchfs/lockmgr/proc/internal/procfs"}, libs: []string{xSys}, not: []string{"net", "log"},
	},
	"latchfs/lockmgr/proc/internal/signals": { // a status in, its meaning out: pure
		libs: []string{xSys}, not: []string{"io", "io/fs", "log", "net", "os", "path/filepath", "sync", "syscall", "time"},
	},
	"latchfs/lockmgr/proc/internal/environs": { // what was asked of environments; what is in them comes in: pure
		ours: []string{"latchfs/lockmgr"}, not: []string{"io", "io/fs", "log", "net", "os", "path/filepath", "sync", "syscall", "time"},
	},
	"latchfs/lockmgr/proc/internal/links": { // links in, what may be done with them out: pure
		not: []string{"io", "io/fs", "log", "net", "os", "path/filepath", "sync", "syscall", "time"},
	},
	"latchfs/lockmgr/proc/internal/family": { // which ancestors share what a process knows; who they are comes in: pure
		ours: []string{"latchfs/lockmgr", "latchfs/lockmgr/proc/internal/signals"}, libs: []string{xSys}, not: []string{"io", "io/fs", "log", "net", "os", "path/filepath", "sync", "syscall", "time"},
	},
	"latchfs/lockmgr/proc/internal/forks": { // who has started whom, by pids; who that is now proc sees
		ours: []string{"latchfs/lockmgr/proc/internal/procfs"}, libs: []string{xSys}, not: []string{"net", "log"},
	},
	"latchfs/lockmgr/proc/internal/patience": { // asks what may block; what is asked comes in
		ours: []string{"latchfs/lockmgr/proc/internal/procfs"}, libs: []string{xSys}, not: []string{"net", "log"},
	},
	"latchfs/lockmgr/proc/internal/script": { // arguments in, a script out: pure
		not: []string{"io", "io/fs", "log", "net", "os", "path/filepath", "sync", "syscall", "time"},
	},
	"latchfs/lockmgr/proc": {
		ours: []string{"latchfs/lockmgr", "latchfs/lockmgr/proc/internal/ends", "latchfs/lockmgr/proc/internal/environs", "latchfs/lockmgr/proc/internal/family", "latchfs/lockmgr/proc/internal/forks", "latchfs/lockmgr/proc/internal/links", "latchfs/lockmgr/proc/internal/patience", "latchfs/lockmgr/proc/internal/procfs", "latchfs/lockmgr/proc/internal/script", "latchfs/lockmgr/proc/internal/signals"}, libs: []string{xSys},
	},
	"latchfs/journal": { // examines the audit trail, too, and writes nothing to it
		ours: []string{"latchfs/journal/audit", "latchfs/journal/internal/jsontext", "latchfs/journal/statedir"}, libs: []string{xSys},
	},
	"latchfs/journal/audit": { // lines about what was done; what is under way is none of its business
		ours: []string{"latchfs/journal/internal/jsontext", "latchfs/journal/statedir"}, libs: []string{xSys}, not: []string{"log", "net"},
	},
	"latchfs/journal/internal/jsontext": { // writes JSON: pure
		not: []string{"encoding/json", "io", "io/fs", "log", "net", "os", "sync", "syscall", "time"},
	},
	"latchfs/journal/oldtimes": { // which times are shown: pure
		libs: []string{xSys}, not: []string{"io", "io/fs", "log", "net", "os", "path/filepath", "sync", "syscall", "time"},
	},
	"latchfs/journal/statedir": { // whose the state directory is; not what its files say
		libs: []string{xSys},
	},
	"latchfs/journal/history": { // which versions there are; what their files hold is none of its business
		ours: []string{"latchfs/journal", "latchfs/journal/audit", "latchfs/journal/statedir",
			"latchfs/journal/history/internal/arena", "latchfs/journal/history/internal/contents", "latchfs/journal/history/internal/logend",
			"latchfs/journal/history/internal/names", "latchfs/journal/history/internal/record", "latchfs/journal/history/internal/shelf"}, libs: []string{xSys},
	},
	"latchfs/journal/history/internal/arena": { // pure: numbers; what the values are its user knows
		not: []string{"os", "io/fs", "net", "log", "sync", "time", "syscall"},
	},
	"latchfs/journal/history/internal/names": { // pure: names; what a path's value is its user knows
		ours: []string{"latchfs/journal/history/internal/arena"}, not: []string{"os", "io/fs", "net", "log", "sync", "time", "syscall"},
	},
	"latchfs/journal/history/internal/shelf": { // what is kept, and what of it goes first: pure
		ours: []string{"latchfs/journal/history/internal/arena"}, not: []string{"os", "io/fs", "net", "log", "sync", "syscall"},
	},
	"latchfs/journal/history/internal/contents": { // where it lies; what it is the log says
		ours: []string{"latchfs/journal/history/internal/record"}, libs: []string{xSys}, not: []string{"net", "log", "sync", "time"},
	},
	"latchfs/journal/history/internal/logend": { // how long the log was; what its records say is none of its business
		ours: []string{"latchfs/journal", "latchfs/journal/statedir"}, libs: []string{xSys}, not: []string{"net", "log", "sync", "time"},
	},
	"latchfs/journal/history/internal/record": { // the language of the log: pure
		ours: []string{"latchfs/journal/internal/jsontext"}, not: []string{"os", "io/fs", "net", "log", "sync", "time", "syscall"},
	},
	// The rooms of commit, from the ground up: no other room may import those below
	// internal, which the compiler sees to.
	"latchfs/journal/commit/internal/disk": { // steps and names
		ours: []string{"latchfs/journal", "latchfs/journal/oldtimes", "latchfs/journal/statedir"}, libs: []string{xSys},
	},
	"latchfs/journal/commit/internal/keep": { // puts old content where history wants it
		ours: []string{"latchfs/journal", "latchfs/journal/history", "latchfs/journal/commit/internal/disk"}, libs: []string{xSys},
	},
	"latchfs/journal/commit/internal/rejected": { // what is refused never was content of a file: no history
		ours: []string{"latchfs/journal/statedir", "latchfs/journal/commit/internal/disk"}, libs: []string{xSys},
	},
	"latchfs/journal/commit/internal/reserved": { // a name on the disk, and its intent in the journal
		ours: []string{"latchfs/journal", "latchfs/journal/commit/internal/disk"}, libs: []string{xSys},
	},
	"latchfs/journal/commit/internal/lazy": { // the old version may be in the history, and what markers are links of is latchfs's own
		ours: []string{"latchfs/journal", "latchfs/journal/history", "latchfs/journal/statedir",
			"latchfs/journal/commit/internal/disk", "latchfs/journal/commit/internal/rejected"}, libs: []string{xSys},
	},
	"latchfs/journal/commit/internal/tail": { // a lazy commit is settled before records follow
		ours: []string{"latchfs/journal",
			"latchfs/journal/commit/internal/disk", "latchfs/journal/commit/internal/lazy", "latchfs/journal/commit/internal/rejected"}, libs: []string{xSys},
	},
	"latchfs/journal/commit/internal/recovery": { // knows what the others' intents mean, and nothing of their state
		ours: []string{"latchfs/journal", "latchfs/journal/history",
			"latchfs/journal/commit/internal/disk", "latchfs/journal/commit/internal/keep", "latchfs/journal/commit/internal/lazy", "latchfs/journal/commit/internal/rejected", "latchfs/journal/commit/internal/tail"}, libs: []string{xSys},
	},
	"latchfs/journal/commit": { // shadows; it joins the rooms below
		tests: []string{"latchfs/journal/commit/fsck"}, // examines what each crash leaves
		ours: []string{"latchfs/journal", "latchfs/journal/history",
			"latchfs/journal/commit/internal/disk", "latchfs/journal/commit/internal/keep", "latchfs/journal/commit/internal/lazy", "latchfs/journal/commit/internal/recovery", "latchfs/journal/commit/internal/rejected", "latchfs/journal/commit/internal/reserved", "latchfs/journal/commit/internal/tail"}, libs: []string{xSys},
	},
	"latchfs/journal/commit/fsck": { // a repair recovers, too; nothing is published
		ours: []string{"latchfs/journal", "latchfs/journal/audit", "latchfs/journal/history", "latchfs/journal/statedir",
			"latchfs/journal/commit/internal/disk", "latchfs/journal/commit/internal/lazy", "latchfs/journal/commit/internal/recovery", "latchfs/journal/commit/internal/rejected"}, libs: []string{xSys},
	},
	"latchfs/journal/validate": {
		libs: []string{xSys, "github.com/pelletier/go-toml/v2", "go.yaml.in/yaml/v4"},
	},
	"latchfs/journal/merge": { // bytes in, bytes out
		not: []string{"embed", "io", "io/fs", "log", "log/slog", "net", "os", "os/exec", "os/signal", "path/filepath", "syscall", "time"},
	},
	"latchfs/fs/account":  {not: []string{"os", "net", "log"}},         // pure: it counts
	"latchfs/fs/access":   {not: []string{"os", "net", "log"}},         // pure: the rules of the kernel
	"latchfs/fs/dcache":   {not: []string{"os", "net", "log", "sync"}}, // names; its user guards them
	"latchfs/fs/locksdir": {ours: []string{"latchfs/fs/printable", "latchfs/fs/report"}, not: []string{"os", "net", "log"}},
	"latchfs/fs/report": { // what is said of locks; which there are comes in
		ours: []string{"latchfs/fs/printable"}, not: []string{"embed", "io", "io/fs", "log", "net", "os", "os/exec", "path/filepath", "sync", "syscall"},
	},
	"latchfs/fs/printable": { // bytes in, bytes out
		not: []string{"embed", "io", "io/fs", "log", "net", "os", "os/exec", "path/filepath", "sync", "syscall"},
	},
	"latchfs/fs/control": {not: []string{"os", "net", "log"}},
	"latchfs/fs/claimfile": { // what programs write into lock files of their own: pure
		ours: []string{"latchfs/lockmgr/policy/lockfile"}, not: []string{"os", "io/fs", "net", "log", "sync", "path/filepath", "syscall"},
	},
	"latchfs/fs/filed": { // the claims that files make; where those lie is behind its Engine
		ours: []string{"latchfs/fs/claimfile", "latchfs/fs/ctl", "latchfs/fs/lockkey", "latchfs/lockmgr", "latchfs/lockmgr/policy/lockfile", "latchfs/lockmgr/proc"},
		not:  []string{"os", "io/fs", "net", "log", "path/filepath", "syscall"},
	},
	"latchfs/fs/filing": { // the claim files in the data directory; names and the state directory are behind its Engine
		ours: []string{"latchfs/fs/claimfile", "latchfs/fs/ctl", "latchfs/fs/filed", "latchfs/fs/lockkey", "latchfs/lockmgr", "latchfs/lockmgr/policy/lockfile", "latchfs/lockmgr/proc"},
		libs: []string{xSys}, not: []string{"os", "io/fs", "net", "log", "path/filepath", "syscall"},
	},
	"latchfs/fs/advisory": { // what programs lock by themselves; files, their names and what users may do are its user's
		ours: []string{"latchfs/lockmgr", "latchfs/lockmgr/policy", "latchfs/lockmgr/policy/lockfile"},
		libs: []string{xSys}, not: []string{"os", "io/fs", "net", "log", "path/filepath", "time"},
	},
	"latchfs/fs/lockwait": { // waits for locks; what they are for, and whose signals end it, comes in
		ours: []string{"latchfs/fs/denied", "latchfs/lockmgr", "latchfs/lockmgr/proc"},
		not:  []string{"os", "io/fs", "net", "log", "path/filepath", "sync", "syscall"},
	},
	"latchfs/fs/readclaim": { // the claims of reads; which reads claim its user knows
		ours: []string{"latchfs/lockmgr", "latchfs/lockmgr/proc"},
		not:  []string{"os", "io/fs", "net", "log", "path/filepath", "syscall"},
	},
	"latchfs/fs/transaction": { // decides transactions; files and names are behind its Engine, and the store too
		ours: []string{"latchfs/journal/commit", "latchfs/lockmgr"},
		libs: []string{xSys}, not: []string{"os", "io/fs", "net", "log", "path/filepath", "syscall", "time"},
	},
	"latchfs/fs/lostupdate": { // what changes would lose, and what becomes of them; what is known and what files hold comes in
		ours: []string{"latchfs/fs/printable", "latchfs/journal/merge", "latchfs/journal/validate",
			"latchfs/lockmgr", "latchfs/lockmgr/knowledge", "latchfs/lockmgr/policy", "latchfs/lockmgr/proc"},
		not: []string{"os", "io/fs", "net", "log", "path/filepath", "sync", "syscall"},
	},
	"latchfs/fs/iomode": { // which way the kernel reads and writes open files; files come in
		libs: []string{xSys}, not: []string{"os", "io/fs", "net", "log", "path/filepath", "syscall", "time"},
	},
	"latchfs/fs/sessionstate": { // where a session is in its life: pure
		libs: []string{xSys}, not: []string{"os", "io/fs", "net", "log", "path/filepath", "sync", "syscall", "time"},
	},
	"latchfs/fs/standin": { // which attributes a shadow shows: pure
		libs: []string{xSys}, not: []string{"os", "io/fs", "net", "log", "path/filepath", "syscall", "time"},
	},
	"latchfs/fs/sys": { // the errno in an error, and the path of a descriptor: pure
		libs: []string{xSys}, not: []string{"io", "io/fs", "log", "net", "os", "path/filepath", "sync", "syscall", "time"},
	},
	"latchfs/fs/suid": { // the setuid and setgid bits, and file capabilities, after writes; who writes comes in
		ours: []string{"latchfs/fs/sys"},
		libs: []string{xSys}, not: []string{"os", "io/fs", "net", "log", "path/filepath", "sync", "syscall", "time"},
	},
	"latchfs/fs/content": { // what a session has made of the content of its file; shadows come in
		libs: []string{xSys}, not: []string{"os", "io/fs", "net", "log", "path/filepath", "sync", "syscall", "time"},
	},
	"latchfs/fs/deaths": { // what a process leaves that a signal has killed: pure
		ours: []string{"latchfs/lockmgr", "latchfs/lockmgr/policy"},
		libs: []string{xSys}, not: []string{"os", "io/fs", "net", "log", "path/filepath", "sync", "time"},
	},
	"latchfs/fs/denied": { // errors that the rooms above the lock table share: pure
		ours: []string{"latchfs/lockmgr"}, not: []string{"os", "net", "log", "sync", "time"},
	},
	"latchfs/fs/lockkey": { // what a lock is on, in the words of the lock table: pure
		ours: []string{"latchfs/lockmgr"}, not: []string{"os", "net", "log", "sync", "time"},
	},
	"latchfs/fs/ctl": { // answers requests for locks; files are behind its Engine
		ours: []string{"latchfs/fs/account", "latchfs/fs/control", "latchfs/fs/denied", "latchfs/fs/lockkey", "latchfs/fs/printable", "latchfs/fs/report",
			"latchfs/lockmgr", "latchfs/lockmgr/policy", "latchfs/lockmgr/proc"},
		libs: []string{xSys}, not: []string{"os", "io/fs", "net", "log", "path/filepath"},
	},
	"latchfs/fs/reach": { // what users may reach; whom that concerns it is told
		ours: []string{"latchfs/fs/access", "latchfs/fs/lockkey", "latchfs/fs/report", "latchfs/fs/sys", "latchfs/lockmgr"},
		libs: []string{xSys}, not: []string{"os", "net", "log", "path/filepath"},
	},
	"latchfs/fs/refusals": { // what was refused lately, and whom that concerns; a sight is asked what a reader may know
		ours: []string{"latchfs/fs/report", "latchfs/journal/validate", "latchfs/lockmgr"},
		libs: []string{xSys}, not: []string{"os", "io/fs", "net", "log"},
	},
	"latchfs/fs/heartbeat": { // sends the heartbeats of leases; what a lock stands for is behind its Engine
		ours: []string{"latchfs/lockmgr", "latchfs/lockmgr/proc"}, not: []string{"os", "io/fs", "net", "log", "syscall"},
	},
	"latchfs/fs/holders": { // who can still write a file; what its close ends its user knows
		ours: []string{"latchfs/fs/account", "latchfs/lockmgr", "latchfs/lockmgr/proc"},
		not:  []string{"os", "io/fs", "net", "log", "path/filepath", "sync", "syscall"},
	},
	"latchfs/fs/appends": { // gathers what is appended into lines; the file's end is behind End
		ours: []string{"latchfs/fs/account"},
		libs: []string{xSys}, not: []string{"os", "io/fs", "net", "log", "path/filepath"},
	},
	"latchfs/fs/records": { // the end of the file that programs append to; the file, its lock and its users are behind Host
		ours: []string{"latchfs/fs/account", "latchfs/fs/appends", "latchfs/fs/deaths", "latchfs/fs/printable", "latchfs/fs/sys", "latchfs/fs/syscalls", "latchfs/fs/unfinished",
			"latchfs/lockmgr", "latchfs/lockmgr/proc"},
		libs: []string{xSys}, not: []string{"os", "io/fs", "net", "log", "path/filepath"},
	},
	"latchfs/fs/judge": { // whether content may have a name; where it is, and what is told, its user knows
		ours: []string{"latchfs/fs/printable", "latchfs/journal/commit", "latchfs/journal/validate", "latchfs/lockmgr/policy"},
		libs: []string{xSys}, not: []string{"io/fs", "net", "log", "path/filepath"},
	},
	"latchfs/fs/unfinished": { // where unfinished lines stand; whose they are the caller knows
		libs: []string{xSys}, not: []string{"os", "io/fs", "net", "log", "path/filepath"},
	},
	"latchfs/fs/rejected": { // shows what commit has put into the store of refused bytes, and has it pruned
		ours: []string{"latchfs/fs/locksdir", "latchfs/journal/commit", "latchfs/journal/history", "latchfs/journal/statedir"},
		libs: []string{xSys}, not: []string{"io/fs", "net", "log", "path/filepath"},
	},
	"latchfs/fs/disclosure": { // who may know of what; which versions there are is behind its Store
		ours: []string{"latchfs/fs/access", "latchfs/fs/locksdir", "latchfs/fs/reach", "latchfs/fs/rejected", "latchfs/fs/report", "latchfs/journal/history"},
		libs: []string{xSys}, not: []string{"io/fs", "net", "log", "path/filepath", "sync"},
	},
	"latchfs/fs/changes": { // tells the recorders of changes; who makes them, and how the recorders keep what they hear, comes in
		ours: []string{"latchfs/fs/lostupdate", "latchfs/fs/versions", "latchfs/journal/audit", "latchfs/journal/history",
			"latchfs/lockmgr/knowledge", "latchfs/lockmgr/policy"},
		libs: []string{xSys}, not: []string{"os", "io/fs", "net", "log", "path/filepath", "sync", "syscall"},
		tests: []string{"latchfs/journal/commit", "latchfs/lockmgr"},
	},
	"latchfs/fs/versions": { // which versions the history gets; who makes them, and who has files open, comes in
		ours: []string{"latchfs/fs/reach", "latchfs/journal/commit", "latchfs/journal/history", "latchfs/lockmgr/policy"},
		libs: []string{xSys}, not: []string{"io/fs", "net", "log", "path/filepath", "syscall"},
		tests: []string{"latchfs/journal"},
	},
	"latchfs/fs/lessons": { // what is learned of programs; where it is written is behind a function
		ours: []string{"latchfs/fs/printable", "latchfs/fs/report", "latchfs/lockmgr", "latchfs/lockmgr/knowledge", "latchfs/lockmgr/programs"},
		not:  []string{"os", "io/fs", "net", "log", "path/filepath", "syscall"},
	},
	"latchfs/fs/markers": { // which directories are databases'; how they are opened is behind a function
		ours: []string{"latchfs/lockmgr/policy"}, libs: []string{xSys}, not: []string{"io/fs", "net", "log", "path/filepath"},
	},
	"latchfs/fs/vnodes": {not: []string{"os", "io/fs", "net", "log", "time"}}, // numbers; of what they are its user knows
	"latchfs/fs/locksfs": { // nodes and open files of .locks; what is in them is behind Tree and Talk
		ours: []string{"latchfs/fs/account", "latchfs/fs/locksdir", "latchfs/fs/report", "latchfs/fs/sys", "latchfs/fs/vnodes", "latchfs/lockmgr"},
		libs: []string{xSys}, not: []string{"os", "net", "log", "path/filepath", "sync"},
	},
	"latchfs/fs/lockview": { // the lock table as .locks shows it; what its locks are for is behind Engine
		ours: []string{"latchfs/fs/ctl", "latchfs/fs/lockkey", "latchfs/fs/readclaim", "latchfs/fs/report", "latchfs/lockmgr"},
		libs: []string{xSys}, not: []string{"os", "io/fs", "net", "log", "path/filepath", "sync", "time"},
	},
	"latchfs/fs/rewalk": { // which threads walk their path again; what they were promised is its user's
		ours: []string{"latchfs/lockmgr/proc"}, not: []string{"os", "io/fs", "net", "log", "path/filepath", "syscall"},
	},
	"latchfs/fs/selftest": { // what the kernel did; how it is answered its user knows
		not: []string{"os", "io/fs", "net", "log", "path/filepath", "syscall"},
	},
	"latchfs/fs/listing": { // reads directories; what is seen of them, and who pays, comes in
		libs: []string{xSys}, not: []string{"os", "io/fs", "net", "log", "path/filepath", "syscall", "time"},
	},
	"latchfs/fs/submounts": { // what is mounted inside the data directory; descriptors and devices come in
		libs: []string{xSys}, not: []string{"os", "io/fs", "net", "log", "path/filepath", "syscall"},
	},
	"latchfs/fs/syscalls": { // what system calls ask for: pure
		ours: []string{"latchfs/lockmgr/proc"}, libs: []string{xSys}, not: []string{"io", "io/fs", "log", "net", "os", "path/filepath", "sync", "syscall", "time"},
	},
	"latchfs/fs/trim": { // makes the kernel forget; what it remembers, and how it is told, is behind Engine
		libs: []string{xSys}, not: []string{"os", "io/fs", "net", "log", "path/filepath", "syscall"},
	},
	"latchfs/fs/bases": { // what replaced versions held; which those are the caller says
		ours: []string{"latchfs/journal/merge", "latchfs/lockmgr/knowledge"}, libs: []string{xSys}, not: []string{"io/fs", "net", "log", "path/filepath"},
	},
	"latchfs/fs/merging": { // the files whose changes are joined; who makes shadows, and as whom, is behind Engine and Draft
		ours: []string{"latchfs/fs/bases", "latchfs/fs/judge", "latchfs/fs/lostupdate", "latchfs/journal/commit", "latchfs/journal/history",
			"latchfs/journal/merge", "latchfs/lockmgr/knowledge", "latchfs/lockmgr/policy"},
		libs: []string{xSys}, not: []string{"io/fs", "net", "log", "path/filepath"},
		tests: []string{"latchfs/lockmgr", "latchfs/lockmgr/proc"},
	},
	"latchfs/fs/asuser":     {libs: []string{xSys}},              // credentials of threads, and nothing of ours
	"latchfs/fs/tally":      {not: []string{"os", "net", "log"}}, // refusals are counted; who writes them down is no business of it
	"latchfs/fs/privileges": {libs: []string{xSys}},              // of the process; the caller says when
	"latchfs/fs/calling": { // who makes requests; processes come in, and what the filesystem knows of them is behind its Engine
		ours: []string{"latchfs/fs/access", "latchfs/fs/asuser", "latchfs/fs/control", "latchfs/fs/reach", "latchfs/fs/transaction", "latchfs/lockmgr", "latchfs/lockmgr/proc"},
		libs: []string{xSys}, not: []string{"os", "io/fs", "net", "log", "path/filepath", "syscall", "time"},
	},
	"latchfs/fs/knowledgelog": { // keeps what is known, and does not look into it
		ours: []string{"latchfs/journal", "latchfs/journal/statedir", "latchfs/lockmgr", "latchfs/lockmgr/knowledge"}, libs: []string{xSys},
	},
	"latchfs/fs": {
		ours: []string{"latchfs/fs/access", "latchfs/fs/account", "latchfs/fs/advisory", "latchfs/fs/appends", "latchfs/fs/asuser", "latchfs/fs/bases", "latchfs/fs/calling", "latchfs/fs/changes", "latchfs/fs/content", "latchfs/fs/control", "latchfs/fs/ctl", "latchfs/fs/datadir", "latchfs/fs/dcache", "latchfs/fs/deaths", "latchfs/fs/denied", "latchfs/fs/disclosure", "latchfs/fs/filed", "latchfs/fs/filing", "latchfs/fs/heartbeat", "latchfs/fs/holders", "latchfs/fs/iomode", "latchfs/fs/judge", "latchfs/fs/knowledgelog", "latchfs/fs/lessons", "latchfs/fs/listing", "latchfs/fs/lockkey", "latchfs/fs/locksdir", "latchfs/fs/locksfs", "latchfs/fs/lockview", "latchfs/fs/lockwait", "latchfs/fs/lostupdate", "latchfs/fs/markers", "latchfs/fs/merging", "latchfs/fs/mounts", "latchfs/fs/printable", "latchfs/fs/privileges", "latchfs/fs/reach", "latchfs/fs/readclaim", "latchfs/fs/records", "latchfs/fs/refusals", "latchfs/fs/rejected", "latchfs/fs/report", "latchfs/fs/rewalk", "latchfs/fs/selftest", "latchfs/fs/sessionstate", "latchfs/fs/standin", "latchfs/fs/submounts", "latchfs/fs/suid", "latchfs/fs/sys", "latchfs/fs/syscalls", "latchfs/fs/tally", "latchfs/fs/transaction", "latchfs/fs/trim", "latchfs/fs/versions", "latchfs/journal", "latchfs/journal/audit", "latchfs/journal/commit", "latchfs/journal/history",
			"latchfs/journal/merge", "latchfs/journal/oldtimes", "latchfs/journal/statedir", "latchfs/journal/validate", "latchfs/lockmgr", "latchfs/lockmgr/knowledge", "latchfs/lockmgr/policy", "latchfs/lockmgr/policy/lockfile",
			"latchfs/lockmgr/proc"},
		libs:  []string{xSys},
		tests: []string{"latchfs/fs/face", "latchfs/journal/commit/fsck"}, // mounts; examines what simulations leave
	},
	"latchfs/fs/face": { // puts the kernel's requests into the words of fs; alone knows FUSE
		ours: []string{"latchfs/fs", "latchfs/fs/mounts"}, libs: []string{goFuse, xSys},
	},
	"latchfs/fs/mounts": { // the mount table; what is mounted is no business of it
		libs: []string{xSys, "github.com/moby/sys/mountinfo"},
	},
	"latchfs/fs/datadir": { // opens the data directory and its state; what that says is no business of it
		ours: []string{"latchfs/fs/mounts", "latchfs/fs/printable", "latchfs/journal", "latchfs/journal/commit", "latchfs/journal/statedir"}, libs: []string{xSys},
	},
	"latchfs/cmd/latchfs": {
		ours: []string{anyRoom},
		libs: []string{xSys, "github.com/coreos/go-systemd/v22", "github.com/moby/sys/mountinfo",
			"github.com/sirupsen/logrus", "github.com/spf13/cobra"},
	},

	// The tests of the built binary know nothing of what is inside it.
	"latchfs/integration": {},
	"latchfs/integration/bench": { // starts the daemons and the clients, and writes the report
		ours: []string{"latchfs/integration/bench/internal/figures", "latchfs/integration/bench/internal/load"},
		libs: []string{xSys, "github.com/moby/sys/mountinfo"},
	},
	"latchfs/integration/bench/internal/load": { // what clients do; mounts and columns are not theirs
		ours: []string{"latchfs/integration/bench/internal/figures"}, libs: []string{xSys},
	},
	"latchfs/integration/bench/internal/figures": { // numbers in, numbers and words out
		not: []string{"embed", "io", "io/fs", "log", "net", "os", "os/exec", "path/filepath", "sync", "syscall", "time"},
	},
	testPrograms: {ours: []string{testPrograms}, libs: []string{xSys}},
}

// testPrograms stands for the programs that the integration tests run, and what
// these share.
const testPrograms = "latchfs/integration/internal"

// roomOf finds the room of a package.
func roomOf(path string) (room, bool) {
	if strings.HasPrefix(path, testPrograms+"/") {
		path = testPrograms
	}
	r, ok := rooms[path]
	return r, ok
}

// What tests may use on top. Their own package's arrows hold for them, too.
var testLibs = []string{
	"github.com/anishathalye/porcupine", "github.com/cockroachdb/datadriven", "github.com/google/go-cmp",
	"github.com/rogpeppe/go-internal", "pgregory.net/rapid", "github.com/moby/sys/mountinfo", xSys,
	goFuse + "/posixtest",
}

// goPackage is what `go list -json` says of a package.
type goPackage struct {
	ImportPath   string
	Dir          string
	GoFiles      []string
	Imports      []string
	TestImports  []string
	XTestImports []string
}

func TestArrows(t *testing.T) {
	inTest(t)
	for _, p := range listPackages(t) {
		r, ok := roomOf(p.ImportPath)
		if !ok {
			t.Errorf("%s: which room is it? Say in arrows_test.go what it may import", p.ImportPath)
			continue
		}
		for _, imported := range p.Imports {
			if !r.mayImport(imported, nil) || slices.Contains(r.not, imported) {
				t.Errorf("%s must not import %s", p.ImportPath, imported)
			}
		}
		for _, imported := range slices.Concat(p.TestImports, p.XTestImports) {
			own := imported == p.ImportPath || slices.Contains(r.tests, imported) || strings.HasPrefix(imported, testPrograms+"/")
			if !own && !r.mayImport(imported, testLibs) {
				t.Errorf("tests of %s must not import %s", p.ImportPath, imported)
			}
		}
	}
}

// mayImport tells whether the room may import a package.
func (r room) mayImport(path string, more []string) bool {
	first, _, _ := strings.Cut(path, "/")
	switch {
	case first == "latchfs":
		return slices.Contains(r.ours, path) || slices.Contains(r.ours, anyRoom) ||
			strings.HasPrefix(path, testPrograms+"/") && slices.Contains(r.ours, testPrograms)
	case !strings.Contains(first, "."):
		return true // the standard library
	}
	return slices.ContainsFunc(slices.Concat(r.libs, more), func(module string) bool {
		return path == module || strings.HasPrefix(path, module+"/")
	})
}

// The lock table is told what time it is; it never asks, and it never waits for
// time to pass.
func TestLockTableHasNoClock(t *testing.T) {
	inTest(t)
	clock := []string{"Now", "Since", "Until", "After", "AfterFunc", "Sleep", "Tick", "NewTimer", "NewTicker"}
	for _, p := range listPackages(t) {
		if p.ImportPath != "latchfs/lockmgr" && !strings.HasPrefix(p.ImportPath, "latchfs/lockmgr/internal/") && p.ImportPath != "latchfs/lockmgr/knowledge" && p.ImportPath != "latchfs/lockmgr/programs" {
			continue
		}
		files := token.NewFileSet()
		for _, name := range p.GoFiles {
			file, err := goparser.ParseFile(files, filepath.Join(p.Dir, name), nil, goparser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(file, func(n ast.Node) bool {
				if s, ok := n.(*ast.SelectorExpr); ok && slices.Contains(clock, s.Sel.Name) {
					if pkg, ok := s.X.(*ast.Ident); ok && pkg.Name == "time" {
						t.Errorf("%v: time.%s in the lock table", files.Position(s.Pos()), s.Sel.Name)
					}
				}
				return true
			})
		}
	}
}

// listPackages lists every package of the module.
func listPackages(t *testing.T) []goPackage {
	t.Helper()
	cmd := exec.Command("go", "list", "-json=ImportPath,Dir,GoFiles,Imports,TestImports,XTestImports", "./...")
	cmd.Dir = ".."
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var packages []goPackage
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p goPackage
		switch err := dec.Decode(&p); {
		case errors.Is(err, io.EOF):
			return packages
		case err != nil:
			t.Fatal(err)
		}
		packages = append(packages, p)
	}
}
