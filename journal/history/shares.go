package history

// share is what one user has of the history.
type share struct {
	bytes int64 // weight of what is kept
	queue queue // kept, oldest first
}

// countLocked adds a content to the share of whoever made its first version.
func (s *Store) countLocked(i uint32) {
	k := s.kept.At(i)
	k.user = k.uid
	if all := s.x.claims(k.content); len(all) > 0 {
		k.user = s.x.versions.At(all[0].version).user
	}
	if s.users == nil {
		s.users = map[uint32]*share{}
	}
	u := s.users[k.user]
	if u == nil {
		u = &share{}
		s.users[k.user] = u
	}
	u.bytes += k.weight()
	u.queue.push(&s.kept, i, (*kept).ofUser)
}

// uncountLocked takes a content that is dropped out of its share.
func (s *Store) uncountLocked(i uint32) {
	k := s.kept.At(i)
	u := s.users[k.user]
	u.bytes -= k.weight()
	u.queue.remove(&s.kept, i, (*kept).ofUser)
	if u.queue.first == 0 {
		delete(s.users, k.user)
	}
}

// excessLocked is the oldest content that may go of the user who has most, 0 if none may.
func (s *Store) excessLocked() uint32 {
	var heaviest uint32
	var most *share
	for uid, u := range s.users {
		if most == nil || u.bytes > most.bytes || u.bytes == most.bytes && uid < heaviest {
			heaviest, most = uid, u
		}
	}
	if most == nil {
		return 0
	}
	return s.looseLocked(most)
}

// oldestLocked is excessLocked for whoever needs the space: where nothing may go of the user who
// has most it is another's.
func (s *Store) oldestLocked() uint32 {
	if i := s.excessLocked(); i != 0 || len(s.pins) == 0 {
		return i
	}
	for i := s.queue.first; i != 0; i = s.kept.At(i).age.next {
		if !s.pinnedLocked(s.kept.At(i).content) {
			return i
		}
	}
	return 0
}

// looseLocked is the oldest of a user's contents that is not pinned, 0 if there is none.
func (s *Store) looseLocked(u *share) uint32 {
	i := u.queue.first
	for i != 0 && s.pinnedLocked(s.kept.At(i).content) {
		i = s.kept.At(i).mine.next
	}
	return i
}
