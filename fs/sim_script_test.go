package fs

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"latchfs/lockmgr/policy"
)

// simScript is what the processes of a simulation do, and what happens to them.
type simScript struct {
	programs []simProgram
	hazards  simHazards
}

// simHazards are how many of a thousand steps do harm.
type simHazards struct {
	kills   int // of a program
	crashes int // of the daemon
	faults  int // of the disk
	cuts    int // of the power

	// Not of steps.
	lazy   int // 1 where no close waits for the disk
	aimed  int // 1 where harm is aimed: see drawAimed
	passes int // 1 where the kernel passes through: see sim_passthrough_test.go
	ttl    int // how many milliseconds a read claim lasts; 0: as by default
	judges int // the simJudges
	lease  int // how many milliseconds a lease lasts; 0: as by default; odd: see leasePolicy
	hidden int // how processes are hidden that hide: see sim_hidden_test.go

	updates policy.LostUpdate // what the policy says of lost updates: see sim_updates_test.go
}

// simProgram is a process that runs commands one after the other, as a shell script
// without children does. The commands are:
//
//	cat F          reads F
//	echo F         writes F anew, in three writes
//	count F        reads F, then writes it anew: what it read must be replaced, or nothing
//	edit F         reads F, writes a temporary file, and renames it to F: likewise
//	save F         writes a temporary file, and renames it to F
//	mv F G         renames a file or a directory
//	swap D E F     reads D/F, renames D to E, and writes E/F anew
//	rm F, mkdir D, rmdir D, stat F, chmod F
//	ln F G         gives F the further name G
//	mvnew F G      renames F to G, if there is no G (RENAME_NOREPLACE)
//	exchange F G   lets F and G change places (RENAME_EXCHANGE)
//	label F        gives F an extended attribute; unlabel F takes it away
//	grant F        gives F an access control list
//	relabel F      writes F anew, and gives it an extended attribute through the descriptor
//	labelonly F    opens F to read and write, and only does the latter
//	chgrp F        gives F another group; touch F another time of modification
//	fchgrp F       writes F anew, and does so through the descriptor; likewise futimens F
//	               and fchmod F
//	nameless F     writes a file that has no name (O_TMPFILE), gives it one (linkat), and
//	               renames it to F
//	ask F          reads the extended attributes of F
//	copy F G       reads F, and copies it over G (copy_file_range)
//	alloc F        writes F anew in room that it has asked for (fallocate)
//	statx F        asks for the attributes of F by statx(2)
//	truncate F     cuts F by its path
//	cut F          opens F to write it, cuts it through the descriptor, and writes it anew
//	bump F         opens F to read and write, reads it, and writes it anew
//	bumpln F G     likewise, and gives F the further name G before it writes
//	log F          appends two records to F
//	parts F        likewise, each in two writes
//	slow F         appends records in pieces, and takes its time: see sim_slow_test.go
//	tally F        reads F, of which the records were appended like that
//	tidy F         reads F, and puts a file with the same content in its place
//	sync F         writes F anew, and syncs it before it closes it
//	lock F         locks F for itself alone (flock), and does as count does
//	trylock F      likewise, unless another one has F locked
//	hold F         shares a lock of F (flock), and reads F twice
//	rdlock F       shares a lock of F (fcntl), reads F, and unlocks it
//	asklock F      asks who has F locked (F_GETLK)
//	txn F G        writes F and G anew in one transaction
//	txnrm F G      writes F anew and removes G in one transaction
//	txnback F G    writes F and G anew in a transaction, and rolls that back
//	begin F        begins a transaction, with F locked; the commands up to the next one are in it
//	commit         commits it, or rolls it back if something in it was refused
//	rollback       rolls it back
//	tree D F       locks D with all below it, and reads F twice
//	pass F         opens F to write it anew, leaves the descriptor to a child, which
//	               writes, and waits for that
//	map F          opens F to read and write, reads it, and stores it anew into a mapping
//	keepmap F      likewise, and closes F before it stores
//	share F        opens F to write it anew, has a child with the descriptor that closes
//	               it, and writes
//	via F          has a child read F, then does as edit does
//	insist F       reads F and writes it anew, and if that is refused, once more a second later
//	note F         reads F, a sheet, and writes it anew with a line of its own changed: see
//	               sim_sheets_test.go
//	notesave F     likewise, and saves it as save does
//	again F        notes something in F, and a second time without reading F again
//	claim F        writes F.lock, does as count does, and removes F.lock
//	claimon F      likewise, and leaves F.lock to the daemon
//	discard F      reads F and removes it
//	look F         reads .locks/F: see sim_looks_test.go
//	list D         lists D
//	watch F        writes F anew, and looks at .locks/held/F.lock meanwhile
//	restore F      reads an earlier version of F, and writes F anew with that
//	bad ...        does as a command does, and writes what validators refuse: see
//	               sim_judges_test.go
//	steal F        takes the lock of F away from whoever writes F: see sim_thefts_test.go
//	twice F        opens F twice, and writes it anew through both descriptors
//	dup F          writes F anew through a descriptor, and through a copy of it
//	reopen F       reads F, and once more through /proc/self/fd
//	renew F        likewise, and a child saves F in between
//	leave F        opens F to write it anew, leaves the descriptor to a child, and ends
//	bequeath F     locks F (flock), and leaves the lock to a child, which does as count does;
//	               heir F likewise, and ends
//	stop F         writes F anew, and is stopped on the way (SIGSTOP): see sim_stopped_test.go
//	stopguard F    locks F by .locks/control, is stopped, and counts in F
//	stoplock F     locks F (flock), and is stopped
//	stoptree D     locks D with all below it, is stopped, and writes D/a anew
//	pause          is stopped
//	hide           the daemon does not see from now on what the program has open: see
//	               sim_hidden_test.go
//	part F G       opens F to write it anew, and has a child with the descriptor that closes
//	               it, and writes G anew
//	keep F         likewise, and the child keeps the descriptor for a while
//	php F          counts in F as PHP does: see sim_php_test.go
//	early F        saves F, and renames the temporary file before it closes it; earlier F
//	               likewise, and writes another version before the close
//	emptylog F     opens F to append, empties it, and appends a record
//	aside          looks at all refused bytes that are kept
//	db F           counts in the database F: see sim_database_test.go; dbstat F reads it
//	plant T        makes a tree of its own, and changes it: see sim_tree_test.go
//
// and those of sim_control_test.go, which ask on .locks/control:
//
//	guard F...     locks files, and counts in each
//	consult F...   shares a lock of files and reads each twice; await F with an update lock
//	shrink F G     locks both, gives F back, and counts in G
//	named N        has the lock N, which stands for no file
//	hasty F        locks F if that is possible at once, and counts in it
//	impatient F... asks for a lock, and goes away before it has it
//	both F G       asks for the locks of both at once, and who has what
//	acquire F...   has a child lock files for it, and counts in each; release F gives one back
//	yield F        locks F, and removes the record of that from .locks/held
//	unlock F       removes the record of whoever has F
//	inquire F...   asks who has files, in all ways
//	wrest F        takes the lock of F away if its holder is another user, or shows no life
//	pin F          pins an earlier version of F, and writes F anew with that
//	forget F       erases what is kept of F
type simProgram struct {
	name  string
	lines []string
}

func simProgramOf(name string, lines ...string) simProgram { return simProgram{name, lines} }

func (s simScript) String() string {
	var b strings.Builder
	for i, p := range s.programs {
		fmt.Fprintf(&b, "  %s[%d]: %s\n", p.name, i+1, strings.Join(p.lines, "; "))
	}
	return b.String()
}

// appends reports whether a program appends records.
func (s simScript) appends() bool { return strings.Contains(s.String(), "log ") || s.tears() }

// tears reports whether a program appends records in pieces.
func (s simScript) tears() bool { return strings.Contains(s.String(), "parts ") }

// links reports whether a program gives files further names.
func (s simScript) links() bool {
	for _, p := range s.programs {
		inside := false
		for _, line := range p.lines {
			command, _, _ := strings.Cut(line, " ")
			switch {
			case command == "begin", command == "commit", command == "rollback":
				inside = command == "begin"
			case strings.HasSuffix(command, "ln") && !inside: // in a transaction that is refused
				return true
			}
		}
	}
	return false
}

var simNames = []string{"a", "b", "d/a", "d/b", "e/a"}

// drawScript makes up what the processes of a simulation do.
func drawScript(seed uint64) simScript {
	r := rand.New(rand.NewPCG(seed, 3))
	s := simScript{hazards: drawHazards(seed, []int{0, 0, 3, 10}[r.IntN(4)])}
	names := simNames[:1+r.IntN(len(simNames))]
	name := func() string { return names[r.IntN(len(names))] }
	dirs := func() (string, string) {
		if r.IntN(2) == 0 {
			return "d", "e"
		}
		return "e", "d"
	}
	for range 2 + r.IntN(3) {
		p := simProgram{name: []string{"ann", "bob", "cyn", "dan"}[len(s.programs)]}
		for range 1 + r.IntN(4) {
			var line string
			switch x := r.IntN(150); {
			case x >= 100:
				line = drawRarer(r, name)
			case x < 18:
				line = "cat " + name()
			case x < 36:
				line = "echo " + name()
			case x < 52:
				line = "count " + name()
			case x < 60:
				line = "edit " + name()
			case x < 68:
				line = "save " + name()
			case x < 76:
				line = "mv " + name() + " " + name()
			case x < 82:
				line = "rm " + name()
			case x < 86:
				d, e := dirs()
				line = "mv " + d + " " + e
			case x < 90:
				d, e := dirs()
				line = "swap " + d + " " + e + " a"
			case x < 92:
				line = "mkdir e"
			case x < 94:
				line = "rmdir e"
			case x < 96:
				line = "stat " + name()
			case x < 98:
				line = "share " + name()
			default:
				line = "pass " + name()
			}
			p.lines = append(p.lines, line)
		}
		s.programs = append(s.programs, p)
	}
	s.drawLocks(seed, func(r *rand.Rand) string { return names[r.IntN(len(names))] })
	s.drawLinks(seed, names)
	s.drawSyncs(seed, names)
	s.drawTransactions(seed)
	s.drawInPlace(seed)
	s.drawMappings(seed, names)
	s.drawUpdates(seed, names)
	s.drawClaims(seed, names)
	s.drawThefts(seed, names)
	s.drawStaged(seed)
	s.drawLooks(seed, names)
	s.drawAttributes(seed, names)
	s.drawRanges(seed, names)
	s.drawJudges(seed)
	s.drawParts(seed)
	s.drawSlows(seed)
	s.drawMeta(seed, names)
	s.drawControl(seed, names)
	s.drawDescriptors(seed, names)
	s.drawLease(seed, names)
	s.drawHidden(seed, names)
	s.drawPHP(seed, names)
	s.drawEarly(seed, names)
	s.drawTrees(seed)
	s.drawDatabases(seed)
	s.drawEmptied(seed, names)
	return s
}

// drawRarer makes up one of the commands that programs use less often.
func drawRarer(r *rand.Rand, name func() string) string {
	switch command := []string{"mvnew", "exchange", "ln", "ln", "chmod", "truncate", "cut", "bump", "bump", "log", "log"}[r.IntN(11)]; command {
	case "mvnew", "exchange", "ln":
		return command + " " + name() + " " + name()
	default:
		return command + " " + name()
	}
}
