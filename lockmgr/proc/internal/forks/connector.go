package forks

import (
	"encoding/binary"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Constants of include/uapi/linux/connector.h and cn_proc.h, and the offsets in a
// message: a header of netlink, one of the connector, and the event.
const (
	cnIdxProc, cnValProc = 1, 1
	procListen           = 1
	procIgnore           = 2
	eventNone            = 0
	eventFork            = 1
	eventExec            = 2
	eventExit            = 0x80000000

	connectorAt = unix.SizeofNlMsghdr
	eventAt     = connectorAt + 20
	dataAt      = eventAt + 16
	eventEnd    = dataAt + 16
)

// tell asks the kernel to begin or to end telling.
func (t *Table) tell(op uint32) error {
	msg := make([]byte, 0, eventAt+4)
	native := binary.NativeEndian
	msg = native.AppendUint32(msg, uint32(cap(msg)))
	msg = native.AppendUint16(msg, unix.NLMSG_DONE)
	msg = append(msg, make([]byte, connectorAt-len(msg))...)
	for _, v := range []uint32{cnIdxProc, cnValProc, 0, 0} {
		msg = native.AppendUint32(msg, v)
	}
	msg = native.AppendUint16(msg, 4) // the length of what follows
	msg = native.AppendUint16(msg, 0)
	msg = native.AppendUint32(msg, op)
	return unix.Sendto(t.fd, msg, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK})
}

// acknowledged waits for the kernel's answer, which is there when tell returns; what is
// told before it does not matter yet.
func (t *Table) acknowledged() error {
	for {
		n, from, err := unix.Recvfrom(t.fd, t.buf[:], unix.MSG_DONTWAIT)
		if err != nil {
			return err
		}
		what, data, ok := event(t.buf[:n], from)
		if ok && what == eventNone {
			if data[0] != 0 {
				return unix.Errno(data[0])
			}
			return nil
		}
	}
}

// event takes a message of the kernel's apart.
func event(msg []byte, from unix.Sockaddr) (what uint32, data [4]uint32, ok bool) {
	if sender, is := from.(*unix.SockaddrNetlink); !is || sender.Pid != 0 || len(msg) < eventEnd {
		return 0, data, false
	}
	native := binary.NativeEndian
	for i := range data {
		data[i] = native.Uint32(msg[dataAt+4*i:])
	}
	return native.Uint32(msg[eventAt:]), data, true
}

// processesOnly is a filter that lets the beginnings, programs and ends of processes through:
// those of threads and all else that the connector tells of cost nothing then. The
// filter reads numbers in network order.
func processesOnly() *unix.SockFprog {
	word := func(at uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: at}
	}
	is := func(v uint32, yes, no uint8) unix.SockFilter {
		var b [4]byte
		binary.NativeEndian.PutUint32(b[:], v)
		return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: binary.BigEndian.Uint32(b[:]), Jt: yes, Jf: no}
	}
	toX := unix.SockFilter{Code: unix.BPF_MISC | unix.BPF_TAX}
	isX := func(yes, no uint8) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_X, Jt: yes, Jf: no}
	}
	answer := func(n uint32) unix.SockFilter { return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: n} }
	program := []unix.SockFilter{
		word(eventAt),
		is(eventExec, 10, 0),
		is(eventFork, 1, 0),
		is(eventExit, 4, 9),
		word(dataAt + 8), // the child's thread id
		toX,
		word(dataAt + 12), // and its process id
		isX(4, 5),
		word(dataAt), // the thread id of what has ended
		toX,
		word(dataAt + 4),
		isX(0, 1),
		answer(eventEnd),
		answer(0),
	}
	return &unix.SockFprog{Len: uint16(len(program)), Filter: unsafe.SliceData(program)}
}
