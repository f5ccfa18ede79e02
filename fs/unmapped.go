package fs

// A program that has closed its descriptor and still has the file mapped ends without
// a word: no request tells when the last mapping goes. Somebody looks from time to time
// (endAtRelease), and so does whoever comes for the file before that.

// endIfUnmapped ends a session that only mappings have kept alive, if they are gone.
// It is for callers who are no relatives. The kernel may hold the directory's lock, so
// that nothing is done here that may take its time.
func (s *session) endIfUnmapped() {
	if s.holders.IsOnlyMapped() && s.settings.Validate == nil {
		s.endIfIdle(nil)
	}
}

// endUnmappedIn is endIfUnmapped for all sessions in a directory.
func (f *FS) endUnmappedIn(dir *inode) {
	for _, s := range f.sessionsIn(dir) {
		s.endIfUnmapped()
	}
}
