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

// excessLocked is the oldest content of the user who has most, 0 if nothing is kept.
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
	return most.queue.first
}
