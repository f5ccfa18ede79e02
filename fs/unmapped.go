package fs

// A program that has closed its descriptor and still has the file mapped ends without
// a word: no request tells when the last mapping goes. Somebody looks from time to time
// (endAtRelease), and so does whoever comes for the file before that.

// endIfUnmapped ends a session that only mappings have kept alive, if they are gone. It is for
// callers that do not belong to the session's owner, and for those that do when they open the
// file to write it: what they write is another version. The kernel may hold the directory's
// lock, so that nothing is done here that may take its time.
func (en *endings) endIfUnmapped(s *session) {
	if s.holders.IsOnlyMapped() && !en.judging.judges(s) {
		en.endIfIdle(s, nil)
	}
}

// endLeftIn ends all sessions in a directory that only mappings have kept alive, if they are gone,
// and lets those end whose last close may be under way.
func (en *endings) endLeftIn(dir *inode) {
	ticks := releaseTicks
	for _, s := range en.sessionsIn(dir) {
		en.endIfUnmapped(s)
		en.awaitRelease(s, &ticks)
	}
}

// sessionsIn lists the sessions on names in a directory.
func (en *endings) sessionsIn(dir *inode) []*session {
	en.nodes.mu.Lock()
	defer en.nodes.mu.Unlock()
	if dir.inside == 0 {
		return nil
	}
	var in []*session
	for s := range en.nodes.sessions {
		if !s.over && s.parent == dir {
			in = append(in, s)
		}
	}
	return in
}
