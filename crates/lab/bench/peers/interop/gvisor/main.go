// gVisor's netstack as the other end of a connection, in virtual time: frames in, frames out.
//
//	gvisor connect|listen send|take BYTES SEED WINDOW
//
// Words and protocol are those of ../lwip.c. Run with GOMAXPROCS=1: a turn ends when no goroutine of the stack has
// anything left to do, and with one processor who yields three times in a row without effect has seen all of them run.
// Build with the Debian package golang-gvisor-gvisor-dev, which wants Go 1.19: GO111MODULE=off
// GOPATH=/usr/share/gocode go build.
package main

import (
	"bufio"
	"bytes"
	"container/heap"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"os"
	"runtime"
	"strconv"
	"sync"
	"time"

	"gvisor.dev/gvisor/pkg/bufferv2"
	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/link/channel"
	"gvisor.dev/gvisor/pkg/tcpip/link/ethernet"
	"gvisor.dev/gvisor/pkg/tcpip/network/arp"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv4"
	"gvisor.dev/gvisor/pkg/tcpip/stack"
	"gvisor.dev/gvisor/pkg/tcpip/transport/tcp"
	"gvisor.dev/gvisor/pkg/waiter"
)

const (
	port  = 5001
	nic   = 1
	mtu   = 1500
	queue = 4096
	// Turns of the scheduler without effect after which all threads rest.
	yields = 3
)

func die(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "gvisor: "+format+"\n", args...)
	os.Exit(1)
}

func must(err tcpip.Error) {
	if err != nil {
		die("%v", err)
	}
}

// Time as the other end tells it.
type clock struct {
	mu    sync.Mutex
	now   int64
	dates dates
}

type date struct {
	at    int64
	timer *timer
	// The timer's `armed` when this date was made: another one has been put off or stopped.
	armed uint64
}

type dates []date

func (d dates) Len() int           { return len(d) }
func (d dates) Less(i, j int) bool { return d[i].at < d[j].at }
func (d dates) Swap(i, j int)      { d[i], d[j] = d[j], d[i] }
func (d *dates) Push(x any)        { *d = append(*d, x.(date)) }
func (d *dates) Pop() any {
	last := (*d)[len(*d)-1]
	*d = (*d)[:len(*d)-1]
	return last
}

type timer struct {
	clock *clock
	f     func()
	// Counts changes; odd while it runs.
	armed uint64
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Unix(0, c.now)
}

func (c *clock) NowMonotonic() tcpip.MonotonicTime {
	c.mu.Lock()
	defer c.mu.Unlock()
	return tcpip.MonotonicTime{}.Add(time.Duration(c.now))
}

func (c *clock) AfterFunc(d time.Duration, f func()) tcpip.Timer {
	t := &timer{clock: c, f: f}
	t.Reset(d)
	return t
}

func (t *timer) Stop() bool {
	t.clock.mu.Lock()
	defer t.clock.mu.Unlock()
	if t.armed%2 == 0 {
		return false
	}
	t.armed++
	return true
}

func (t *timer) Reset(d time.Duration) {
	c := t.clock
	c.mu.Lock()
	defer c.mu.Unlock()
	t.armed += 1 + t.armed%2
	at := c.now
	if d > 0 {
		at += int64(d)
	}
	heap.Push(&c.dates, date{at, t, t.armed})
}

// Takes the next date if it has come.
func (c *clock) due() *timer {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.dates) > 0 && c.dates[0].at <= c.now {
		next := heap.Pop(&c.dates).(date)
		if next.timer.armed == next.armed {
			next.timer.armed++
			return next.timer
		}
	}
	return nil
}

func (c *clock) next() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.dates) > 0 && c.dates[0].timer.armed != c.dates[0].armed {
		heap.Pop(&c.dates)
	}
	if len(c.dates) == 0 {
		return math.MaxUint64
	}
	return uint64(c.dates[0].at)
}

// The stream; bench::interop::pattern has the same.
type pattern uint64

func (p pattern) fill(at uint64, into []byte) {
	var word [8]byte
	for len(into) > 0 {
		z := uint64(p) + (at/8+1)*0x9e3779b97f4a7c15
		z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
		z = (z ^ z>>27) * 0x94d049bb133111eb
		binary.LittleEndian.PutUint64(word[:], z^z>>31)
		n := copy(into, word[at%8:])
		at, into = at+uint64(n), into[n:]
	}
}

type app struct {
	connects, sends, shut, done bool
	total, at                   uint64
	pattern                     pattern
	stack                       *stack.Stack
	listener, flow              tcpip.Endpoint
	connected                   bool
	piece, want                 []byte
	// What of `piece` is not yet written.
	rest []byte
}

func (a *app) open() {
	ep, err := a.stack.NewEndpoint(tcp.ProtocolNumber, ipv4.ProtocolNumber, &waiter.Queue{})
	must(err)
	if a.connects {
		a.flow = ep
		err := ep.Connect(tcpip.FullAddress{NIC: nic, Addr: "\x0a\x00\x00\x02", Port: port})
		if _, started := err.(*tcpip.ErrConnectStarted); !started {
			must(err)
		}
		return
	}
	must(ep.Bind(tcpip.FullAddress{NIC: nic, Port: port}))
	must(ep.Listen(4))
	a.listener = ep
}

func waits(err tcpip.Error) bool {
	_, would := err.(*tcpip.ErrWouldBlock)
	return would
}

// What the application does in a turn: did it do anything?
func (a *app) work() bool {
	if a.done {
		return false
	}
	if a.flow == nil {
		ep, _, err := a.listener.Accept(nil)
		if waits(err) {
			return false
		}
		must(err)
		a.flow = ep
	}
	switch state := tcp.EndpointState(a.flow.State()); state {
	case tcp.StateConnecting, tcp.StateSynSent, tcp.StateSynRecv:
		return false
	case tcp.StateError:
		die("the connection failed after %d bytes: %v", a.at, a.flow.LastError())
	}
	busy := false
	for a.sends && a.at < a.total {
		if len(a.rest) == 0 {
			n := a.total - a.at
			if n > uint64(len(a.piece)) {
				n = uint64(len(a.piece))
			}
			a.rest = a.piece[:n]
			a.pattern.fill(a.at, a.rest)
		}
		n, err := a.flow.Write(bytes.NewReader(a.rest), tcpip.WriteOptions{})
		if waits(err) {
			return busy
		}
		must(err)
		a.at, a.rest, busy = a.at+uint64(n), a.rest[n:], true
	}
	if a.sends && !a.shut {
		must(a.flow.Shutdown(tcpip.ShutdownWrite))
		a.shut, busy = true, true
	}
	for {
		var got bytes.Buffer
		_, err := a.flow.Read(&tcpip.LimitedWriter{W: &got, N: int64(len(a.want))}, tcpip.ReadOptions{})
		if waits(err) {
			return busy
		}
		if _, closed := err.(*tcpip.ErrClosedForReceive); closed {
			break
		}
		must(err)
		if a.sends {
			die("data for the sender")
		}
		want := a.want[:got.Len()]
		a.pattern.fill(a.at, want)
		if !bytes.Equal(want, got.Bytes()) {
			die("a wrong byte arrived among %d after byte %d", got.Len(), a.at)
		}
		a.at, busy = a.at+uint64(got.Len()), true
		a.flow.ModerateRecvBuf(got.Len())
	}
	if a.at != a.total {
		die("the stream ended early, after %d bytes", a.at)
	}
	a.flow.Close()
	a.done = true
	return true
}

func newStack(c *clock, link stack.LinkEndpoint, addr tcpip.Address, window int) *stack.Stack {
	s := stack.New(stack.Options{
		NetworkProtocols:   []stack.NetworkProtocolFactory{ipv4.NewProtocol, arp.NewProtocol},
		TransportProtocols: []stack.TransportProtocolFactory{tcp.NewProtocol},
		Clock:              c,
	})
	must(s.CreateNIC(nic, link))
	must(s.AddProtocolAddress(nic, tcpip.ProtocolAddress{
		Protocol:          ipv4.ProtocolNumber,
		AddressWithPrefix: tcpip.AddressWithPrefix{Address: addr, PrefixLen: 24},
	}, stack.AddressProperties{}))
	s.SetRouteTable([]tcpip.Route{{Destination: header.IPv4EmptySubnet, NIC: nic}})
	sack := tcpip.TCPSACKEnabled(true)
	must(s.SetTransportProtocolOption(tcp.ProtocolNumber, &sack))
	if window > 0 {
		size := tcpip.TCPReceiveBufferSizeRangeOption{Min: 1, Default: window, Max: window}
		must(s.SetTransportProtocolOption(tcp.ProtocolNumber, &size))
		moderate := tcpip.TCPModerateReceiveBufferOption(false)
		must(s.SetTransportProtocolOption(tcp.ProtocolNumber, &moderate))
	}
	return s
}

func main() {
	if len(os.Args) != 6 {
		fmt.Fprintln(os.Stderr, "usage: gvisor connect|listen send|take BYTES SEED WINDOW")
		os.Exit(2)
	}
	var numbers [3]uint64
	for i := range numbers {
		number, err := strconv.ParseUint(os.Args[3+i], 10, 64)
		if err != nil {
			die("%v", err)
		}
		numbers[i] = number
	}
	a := &app{connects: os.Args[1] == "connect", sends: os.Args[2] == "send"}
	a.total, a.pattern = numbers[0], pattern(numbers[1])
	a.piece, a.want = make([]byte, 64<<10), make([]byte, 64<<10)
	c := &clock{}
	wire := channel.New(queue, mtu+header.EthernetMinimumSize, "\x02\x00\x00\x00\x00\x09")
	addr := tcpip.Address("\x0a\x00\x00\x02")
	if a.connects {
		addr = "\x0a\x00\x00\x01"
	}
	a.stack = newStack(c, ethernet.New(wire), addr, int(numbers[2]))
	in, out := bufio.NewReaderSize(os.Stdin, 1<<20), bufio.NewWriterSize(os.Stdout, 1<<20)
	var word [8]byte
	get := func(n int) uint64 {
		clear := word[n:]
		for i := range clear {
			clear[i] = 0
		}
		if _, err := io.ReadFull(in, word[:n]); err != nil {
			os.Exit(0) // the other end has what it wanted
		}
		return binary.LittleEndian.Uint64(word[:])
	}
	put := func(n int, number uint64) {
		binary.LittleEndian.PutUint64(word[:], number)
		out.Write(word[:n])
	}
	var sent []stack.PacketBufferPtr
	for {
		now := get(8)
		c.mu.Lock()
		c.now = int64(now)
		c.mu.Unlock()
		if a.flow == nil && a.listener == nil {
			a.open()
		}
		for frames := get(4); frames > 0; frames-- {
			bytes := make([]byte, get(4))
			if _, err := io.ReadFull(in, bytes); err != nil {
				die("%v", err)
			}
			pkt := stack.NewPacketBuffer(stack.PacketBufferOptions{Payload: bufferv2.MakeWithData(bytes)})
			wire.InjectInbound(0, pkt)
			pkt.DecRef()
		}
		sent = sent[:0]
		for quiet := 0; quiet < yields; {
			busy := false
			for t := c.due(); t != nil; t = c.due() {
				t.f()
				busy = true
			}
			busy = a.work() || busy
			for pkt := wire.Read(); !pkt.IsNil(); pkt = wire.Read() {
				sent = append(sent, pkt)
				busy = true
			}
			if quiet++; busy {
				quiet = 0
			}
			runtime.Gosched()
		}
		put(4, uint64(len(sent)))
		for _, pkt := range sent {
			put(4, uint64(pkt.Size()))
			for _, part := range pkt.AsSlices() {
				out.Write(part)
			}
			pkt.DecRef()
		}
		put(8, c.next())
		put(8, a.at)
		finished := uint64(0)
		if a.done {
			finished = 1
		}
		put(1, finished)
		if err := out.Flush(); err != nil {
			os.Exit(0)
		}
	}
}
