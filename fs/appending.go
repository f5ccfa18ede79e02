package fs

// appending opens files for those who append records.
type appending struct {
	*ground
	*engine
}
