package main

// work is one line of the report.
type work struct {
	ID       string // for -only
	Title    string
	Does     string       // one operation, in the words of the report's notes
	Clients  int          // processes at once; 1 when zero
	Pair     bool         // two clients, holder and waiter, that hand a lock over
	Commits  bool         // how durable a commit is matters: the columns "full" and "ordered" are measured too
	Reads    bool         // the column "untracked" is measured too
	Promises []durability // which ones promise what the other columns' syncs do; none: any
	Target   target
	New      func(spec) (*job, error) // in the client: prepares, untimed
	Size     int64                    // of what grows, where this is a point of a curve
}

// durability is a policy of latchfs: what a commit has waited for.
type durability string

const (
	auto    durability = "auto"    // as full for what replaces a version, as lazy for what is new
	full    durability = "full"    // file and directory are on disk
	ordered durability = "ordered" // the file is, before it gets its name
	lazy    durability = "lazy"    // nothing is
)

// job is a work made ready in a client. The client runs op warm times, waits
// for the start, and then repeats op until the budget is spent or fixed
// operations are done.
type job struct {
	warm    int // operations before the clock starts
	batch   int // operations between two looks at the clock; 1 when zero
	fixed   int // total number of operations; 0: as many as the budget allows
	op      func(i int) error
	clean   func() error // untimed; may be nil
	samples []float64    // ns; when op measures by itself, the median of these counts
}

// spec tells a client what to do. It travels as JSON on the command line.
type spec struct {
	Work         string
	Root         string // this column's view of the files
	Data         string // the same files below the mount
	Size         int64  // the point of a curve
	Archive      string // the tar file of the untar work, outside of all columns
	CloseCommits bool   // the column is latchfs: open, write, close is a safe save
	CloseSyncs   bool   // the close of a new file waits for the disk, too
	Index        int    // of several clients
	Role         role   // of a pair
	BudgetNS     int64  // how long to repeat the operation
}

// role of a client in a pair. The pipes between the two are the descriptors 3
// (to read) and 4 (to write).
type role string

const (
	alone  role = ""
	holder role = "holder"
	waiter role = "waiter"
)

// result is a client's answer, one line of JSON. The times are nanoseconds of
// CLOCK_MONOTONIC, comparable between clients.
type result struct {
	Ops        int
	Start, End int64
	Sample     float64 // median of the job's own samples, 0 when it takes none
	Err        string  `json:",omitempty"`
}

// allWorks in the order of the report.
func allWorks() []work {
	var all []work
	all = append(all, saveWorks()...)
	all = append(all, nameWorks()...)
	all = append(all, dataWorks()...)
	all = append(all, appendWorks()...)
	all = append(all, untarWork())
	return append(all, handoverWorks()...)
}
