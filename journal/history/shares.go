package history

import "slices"

// share is what one user has of the history.
type share struct {
	bytes int64      // weight of what is kept
	kept  int        // how many contents that is
	queue []*content // kept, oldest first; some may have been dropped since
}

// user is in whose share a version counts: who made it. What was found, or was made
// by root, counts for the file's owner.
func (e *entry) user() uint32 {
	if e.UID != 0 {
		return e.UID
	}
	return e.Rights.UID
}

// countLocked adds a content to the share of whoever made its first version.
func (s *Store) countLocked(c *content) {
	c.user = c.rights.UID
	if len(c.refs) > 0 {
		c.user = c.refs[0].user()
	}
	if s.users == nil {
		s.users = map[uint32]*share{}
	}
	u := s.users[c.user]
	if u == nil {
		u = &share{}
		s.users[c.user] = u
	}
	u.bytes += c.weight
	u.kept++
	u.queue = append(u.queue, c)
}

// uncountLocked takes a content that has been dropped out of its share.
func (s *Store) uncountLocked(c *content) {
	u := s.users[c.user]
	u.bytes -= c.weight
	u.kept--
	if u.kept == 0 {
		delete(s.users, c.user)
	} else if len(u.queue) > 2*u.kept+minQueue {
		u.queue = slices.DeleteFunc(u.queue, func(c *content) bool { return !c.kept })
	}
}

// minQueue is how many dropped contents a queue may hold at any rate.
const minQueue = 64

// excessLocked is the oldest content of the user who has most, nil if nothing is
// kept.
func (s *Store) excessLocked() *content {
	for {
		var heaviest uint32
		var most *share
		for uid, u := range s.users {
			if most == nil || u.bytes > most.bytes || u.bytes == most.bytes && uid < heaviest {
				heaviest, most = uid, u
			}
		}
		if most == nil {
			return nil
		}
		for i, c := range most.queue {
			if c.kept && c.user == heaviest {
				most.queue = most.queue[i:]
				return c
			}
		}
		delete(s.users, heaviest)
	}
}
