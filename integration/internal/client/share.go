package main

import (
	"golang.org/x/sys/unix"

	"latchfs/integration/internal/wire"
)

// shareOps are the ways in which a file outlives or leaves its descriptor:
// mappings, and descriptors passed over a socket.
var shareOps = map[string]handler{
	"mmap": func(p *process, r wire.Request) (wire.Result, error) {
		b, err := unix.Mmap(r.FD, r.Off, int(r.Len), r.Flags, unix.MAP_SHARED)
		if err != nil {
			return wire.Result{}, err
		}
		id := p.next
		p.next++
		p.maps[id] = b
		return wire.Result{N: int64(id)}, nil
	},
	"load": func(p *process, r wire.Request) (wire.Result, error) {
		b := append([]byte(nil), p.maps[r.FD][r.Off:r.Off+r.Len]...)
		return wire.Result{N: r.Len, Data: b}, nil
	},
	"store": func(p *process, r wire.Request) (wire.Result, error) {
		return count(copy(p.maps[r.FD][r.Off:], r.Data), nil)
	},
	"msync": func(p *process, r wire.Request) (wire.Result, error) {
		return nothing(unix.Msync(p.maps[r.FD], unix.MS_SYNC))
	},
	"munmap": func(p *process, r wire.Request) (wire.Result, error) {
		b := p.maps[r.FD]
		delete(p.maps, r.FD)
		return nothing(unix.Munmap(b))
	},
	"sendfd": sendFD, "recvfd": receiveFD, "listen": listenUnix,
}

// listenUnix binds the socket at Path; N is its descriptor.
func listenUnix(_ *process, r wire.Request) (wire.Result, error) {
	s, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return wire.Result{}, err
	}
	if err := unix.Bind(s, &unix.SockaddrUnix{Name: r.Path}); err != nil {
		return wire.Result{}, err
	}
	return wire.Result{N: int64(s)}, unix.Listen(s, 1)
}

// sendFD passes FD to the process that listens at To.
func sendFD(_ *process, r wire.Request) (wire.Result, error) {
	s, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return wire.Result{}, err
	}
	defer unix.Close(s)
	if err := unix.Connect(s, &unix.SockaddrUnix{Name: r.To}); err != nil {
		return wire.Result{}, err
	}
	return nothing(unix.Sendmsg(s, []byte{0}, unix.UnixRights(r.FD), nil, 0))
}

// receiveFD accepts one connection on the listening socket FD and takes the
// descriptor that comes over it.
func receiveFD(_ *process, r wire.Request) (wire.Result, error) {
	s, _, err := unix.Accept4(r.FD, unix.SOCK_CLOEXEC)
	if err != nil {
		return wire.Result{}, err
	}
	defer unix.Close(s)
	oob := make([]byte, unix.CmsgSpace(4))
	_, n, _, _, err := unix.Recvmsg(s, make([]byte, 1), oob, unix.MSG_CMSG_CLOEXEC)
	if err != nil {
		return wire.Result{}, err
	}
	msgs, err := unix.ParseSocketControlMessage(oob[:n])
	if err != nil || len(msgs) != 1 {
		return wire.Result{}, unix.EPROTO
	}
	fds, err := unix.ParseUnixRights(&msgs[0])
	if err != nil || len(fds) != 1 {
		return wire.Result{}, unix.EPROTO
	}
	return wire.Result{N: int64(fds[0])}, nil
}
