package load

import "latchfs/integration/bench/internal/figures"

// Work is one operation that is measured, one line of the report.
type Work struct {
	ID       string // unique among works and curves
	Title    string
	Does     string       // one operation, in the words of the report's notes
	Clients  int          // processes at once; 1 when zero
	Pair     bool         // two clients, Holder and Waiter, that hand a lock over
	Commits  bool         // it takes another time where commits are more durable
	Reads    bool         // it takes another time where reads are not noted
	Promises []Durability // which ones promise what is synced where a close does not commit; none: any
	Target   figures.Target
	Size     int64 // of what grows, where this is a point of a curve

	prepare func(Spec) (*job, error) // in the client, untimed
}

// Durability is a policy of latchfs: what a commit has waited for.
type Durability string

// The policies; see docs/policy.md.
const (
	Auto    Durability = "auto"    // as full for what replaces a version, as lazy for what is new
	Full    Durability = "full"    // file and directory are on disk
	Ordered Durability = "ordered" // the file is, before it gets its name
	Lazy    Durability = "lazy"    // nothing is
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

// Spec tells a client what to do. It travels as JSON on the command line.
type Spec struct {
	Work         string // the ID of a work, or of a curve's
	Root         string // where the client sees the files
	Data         string // the same files below the mount
	Size         int64  // the point of a curve
	Archive      string // the tar file of the untar work, outside of all mounts
	CloseCommits bool   // on latchfs: open, write, close is a safe save
	CloseSyncs   bool   // the close of a new file waits for the disk, too
	Index        int    // of several clients
	Role         Role   // of a pair
	BudgetNS     int64  // how long to repeat the operation
}

// Role of a client in a pair. The pipes between the two are the descriptors 3
// (to read) and 4 (to write).
type Role string

// The two of a pair.
const (
	alone  Role = ""
	Holder Role = "holder"
	Waiter Role = "waiter"
)

// Result is a client's answer, one line of JSON. The times are nanoseconds of
// CLOCK_MONOTONIC, comparable between clients.
type Result struct {
	Ops        int
	Start, End int64
	Sample     float64 // median of the job's own samples, 0 when it takes none
	Err        string  `json:",omitempty"`
}

// Works are all works, in the order of the report. Those of curves are not among them.
func Works() []Work {
	var all []Work
	all = append(all, saveWorks()...)
	all = append(all, nameWorks()...)
	all = append(all, dataWorks()...)
	all = append(all, appendWorks()...)
	all = append(all, untarWork())
	return append(all, handoverWorks()...)
}
