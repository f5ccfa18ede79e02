package fs

import "latchfs/fs/records"

// appending opens files for those who append records.
type appending struct {
	appenders records.Room // who appends records

	*ground
	*engine

	fs *FS // for what it makes
}
