package fs

// appending opens files for programs that append records, and shows a program the unfinished
// lines that it has appended.
type appending struct {
	*ground
	*engine
}
