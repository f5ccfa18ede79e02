package links

import "testing"

// each asks about links, and about as much of them as is enough.
func each(t *testing.T, is func([]byte) bool, want map[string]bool) {
	t.Helper()
	for link, want := range want {
		for _, l := range []string{link, link[:min(len(link), Start)]} {
			if got := is([]byte(l)); got != want {
				t.Errorf("%q: %v", l, got)
			}
		}
	}
}

func TestIsAnonymous(t *testing.T) {
	each(t, IsAnonymous, map[string]bool{
		"pipe:[123]": true, "socket:[12": true, "socket:[123456789012]": true,
		"anon_inode:": true, "anon_inode:[eventpoll]": true, "anon_inode:[eventfd]": true, "anon_inode:[io_uring]": true,
		"/": false, "/pipe:[1]": false, "/socket:[1": false, "/dev/null": false, "": false, "pipe": false,
		"/anon_inode:[eventpoll]": false, "/memfd:pipe:[1] (deleted)": false,
	})
}

func TestMayWait(t *testing.T) {
	each(t, MayWait, map[string]bool{
		"/dev/net/tun": true, "/dev/dri/card0": true, "/dev/nullx": true, "/dev/pts": true, "/dev/": true,
		"/dev/ptsx": true, "/dev/ttyS0": true, "/dev/urandom2": true, "/dev/a/name/that/is/long": true,
		"/dev/null": false, "/dev/zero": false, "/dev/tty": false, "/dev/random": false, "/dev/urandom": false,
		"/dev/pts/7": false, "/dev/shm/x": false, "/dev/shm/a/name/that/is/long": false,
		"/devices": false, "/tmp/dev/net": false, "pipe:[1]": false, "": false,
	})
}

// What both say is never yes: what may wait has a path.
func TestNotBoth(t *testing.T) {
	for _, link := range []string{"/dev/net/tun", "pipe:[1]", "anon_inode:[eventpoll]", "/dev/null", "socket:[1]"} {
		if IsAnonymous([]byte(link)) && MayWait([]byte(link)) {
			t.Errorf("%q", link)
		}
	}
}
