package wire

// Act is one attempt of a process to lock a key, as it saw it, and the release
// that followed. Times are nanoseconds of CLOCK_MONOTONIC, one clock for all
// processes.
type Act struct {
	Process int
	Key     string
	Way     string // "control", "open" or "flock"
	Mode    string // "shared", "update" or "exclusive"
	Wait    int64  // nanoseconds; 0: a try, -1: without end
	Granted bool
	Error   string // why not, in one word
	Token   uint64 // fencing token, 0 where the way has none

	Call, Return int64 // of the request
	Free, Freed  int64 // of the release; 0 without a grant
}
