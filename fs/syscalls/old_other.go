//go:build !amd64

package syscalls

// oldStats are the numbers of the system calls by which older programs ask for
// attributes: newer architectures have none.
var oldStats []int

// oldOpens are those by which they open files.
var oldOpens map[int]int

// oldChowns are those by which they change a file's owner.
var oldChowns []int

// oldSetters are those by which they change other attributes of the file at a path.
var oldSetters []int

// oldUnlinks are those by which they remove the names of files.
var oldUnlinks []int

// oldUtimes are those by which they set the times of files.
var oldUtimes []int
