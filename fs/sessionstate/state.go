package sessionstate

import "fmt"

// State is a place in the drawing of the package.
type State uint8

const (
	// Writing says that its writer writes the shadow, and nobody else sees it.
	Writing State = iota
	// Ending says that it is being committed or rolled back. Nobody joins it any more.
	Ending
	// GoingLive says that the shadow is about to become the file while it is written.
	GoingLive
	// Committed says that what was written, if anything, is the file.
	Committed
	// Live says that the shadow is the file, and what its handles write goes straight there.
	Live
	// RolledBack says that what was written did not become the file. It may be kept.
	RolledBack
	// Detached says that its own family has taken the name away. What is written is nobody's.
	Detached
	// Dropped says that it was detached, and is closed.
	Dropped
	// Apart says that it was committed, but somebody still has the shadow open. A copy has
	// taken its place, so that what is written now is nobody's.
	Apart
)

var names = [...]string{
	"writing", "ending", "going live", "committed", "live", "rolled back", "detached", "dropped", "apart",
}

// String is the state in the words of the log.
func (st State) String() string { return names[st] }

// next are those that may follow a state.
var next = [...][]State{
	Writing:    {Ending, GoingLive, Detached},
	Ending:     {Committed, RolledBack},
	GoingLive:  {Live, Committed, RolledBack},
	Committed:  {Apart},
	Live:       nil,
	RolledBack: nil,
	Detached:   {Dropped},
	Dropped:    nil,
	Apart:      nil,
}

// HasEnded reports whether nobody joins the session any more, and nothing that is
// written to its shadow will be committed by it.
func (st State) HasEnded() bool { return st != Writing && st != Detached }

// IsNobodys reports whether what is written to the shadow comes to no file.
func (st State) IsNobodys() bool { return st == Detached || st == Dropped || st == Apart }

// OrderError says that a session has become what the drawing does not let follow.
type OrderError struct{ From, To State }

// Error implements error.
func (e *OrderError) Error() string {
	return fmt.Sprintf("it is %v, and cannot become %v", e.From, e.To)
}
