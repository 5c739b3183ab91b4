// gVisor's netstack: client and server stack in one process, joined by its own pipe link, checksums in software.
//
//	gvisor short  N SECONDS   one request of 64 bytes a connection, N at a time; the server closes
//	gvisor keep   N SECONDS   requests over N connections that stay
//	gvisor some   N SECONDS   the same over 64 of N connections
//	gvisor bulk   N SECONDS   N flows from client to server
//	gvisor rest   N SECONDS   N connections stay idle: memory of both ends
//
// A goroutine a connection at either end, as its users write (adapters/gonet). Prints one JSON object. Build with the
// Debian package golang-gvisor-gvisor-dev, which wants Go 1.19: GO111MODULE=off GOPATH=/usr/share/gocode go build.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/adapters/gonet"
	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/link/pipe"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv4"
	"gvisor.dev/gvisor/pkg/tcpip/stack"
	"gvisor.dev/gvisor/pkg/tcpip/transport/tcp"
)

const (
	message = 64
	port    = 80
	// Connections that ask in "some".
	active = 64
	nic    = 1
)

var serverAddr = tcpip.Address("\x0a\x00\x00\x01")

// Transactions done, or bytes.
var done atomic.Int64

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "gvisor:", err)
		os.Exit(1)
	}
}

func must(err tcpip.Error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "gvisor:", err)
		os.Exit(1)
	}
}

// A stack with one address. Nothing lingers in TIME-WAIT: ports would run out within seconds.
func newStack(link stack.LinkEndpoint, addrs ...tcpip.Address) *stack.Stack {
	s := stack.New(stack.Options{
		NetworkProtocols:   []stack.NetworkProtocolFactory{ipv4.NewProtocol},
		TransportProtocols: []stack.TransportProtocolFactory{tcp.NewProtocol},
	})
	must(s.CreateNIC(nic, link))
	for _, addr := range addrs {
		prefix := tcpip.ProtocolAddress{
			Protocol:          ipv4.ProtocolNumber,
			AddressWithPrefix: tcpip.AddressWithPrefix{Address: addr, PrefixLen: 8},
		}
		must(s.AddProtocolAddress(nic, prefix, stack.AddressProperties{}))
	}
	s.SetRouteTable([]tcpip.Route{{Destination: header.IPv4EmptySubnet, NIC: nic}})
	linger := tcpip.TCPTimeWaitTimeoutOption(time.Millisecond)
	must(s.SetTransportProtocolOption(tcp.ProtocolNumber, &linger))
	sack := tcpip.TCPSACKEnabled(true)
	must(s.SetTransportProtocolOption(tcp.ProtocolNumber, &sack))
	return s
}

func serve(conn io.ReadWriteCloser, load string) {
	if load == "bulk" {
		buf := make([]byte, 256<<10)
		for {
			n, err := conn.Read(buf)
			if err != nil {
				return
			}
			done.Add(int64(n))
		}
	}
	buf := make([]byte, message)
	for {
		if _, err := io.ReadFull(conn, buf); err != nil {
			conn.Close()
			return
		}
		_, err := conn.Write(buf)
		if load == "short" || err != nil {
			conn.Close()
			return
		}
	}
}

type client struct {
	stack *stack.Stack
	addrs []tcpip.Address
}

func (c *client) dial(nth int) *gonet.TCPConn {
	to := tcpip.FullAddress{NIC: nic, Addr: serverAddr, Port: port}
	from := tcpip.FullAddress{NIC: nic, Addr: c.addrs[nth%len(c.addrs)]}
	for {
		conn, err := gonet.DialTCPWithBind(context.Background(), c.stack, from, to, ipv4.ProtocolNumber)
		if err == nil {
			return conn
		}
		// A port that was just given back may still be known at the other end.
		time.Sleep(time.Millisecond)
	}
}

func ask(conn *gonet.TCPConn, buf []byte) {
	_, err := conn.Write(buf)
	check(err)
	_, err = io.ReadFull(conn, buf)
	check(err)
	done.Add(1)
}

// What one connection does, or one place of `short`.
func (c *client) play(nth int, load string) {
	buf := make([]byte, message)
	switch load {
	case "short":
		for {
			conn := c.dial(nth)
			_, err := conn.Write(buf)
			check(err)
			_, err = io.ReadFull(conn, buf)
			check(err)
			if _, err = conn.Read(buf); err != io.EOF {
				check(fmt.Errorf("after the answer: %v", err))
			}
			conn.Close()
			done.Add(1)
		}
	case "bulk":
		conn, piece := c.dial(nth), make([]byte, 256<<10)
		for {
			_, err := conn.Write(piece)
			check(err)
		}
	}
	conn := c.dial(nth)
	ready.Add(1)
	if load == "rest" || load == "some" && nth >= active {
		return
	}
	for {
		ask(conn, buf)
	}
}

// Connections established.
var ready atomic.Int64

func cpu() float64 {
	var use syscall.Rusage
	check(syscall.Getrusage(syscall.RUSAGE_SELF, &use))
	return float64(use.Utime.Nano()+use.Stime.Nano()) / 1e3
}

func resident() float64 {
	runtime.GC()
	text, err := os.ReadFile("/proc/self/statm")
	check(err)
	var size, pages float64
	_, err = fmt.Sscan(string(text), &size, &pages)
	check(err)
	return pages * 4096
}

func main() {
	if len(os.Args) < 4 {
		fmt.Fprintln(os.Stderr, "usage: gvisor short|keep|some|bulk|rest N SECONDS")
		os.Exit(2)
	}
	load := os.Args[1]
	count, err := strconv.Atoi(os.Args[2])
	check(err)
	seconds, err := strconv.ParseFloat(os.Args[3], 64)
	check(err)

	near, far := pipe.New("\x02\x00\x00\x00\x00\x01", "\x02\x00\x00\x00\x00\x02", 1500)
	c := &client{}
	for i := 0; i < 8; i++ {
		c.addrs = append(c.addrs, tcpip.Address([]byte{10, 1, 0, byte(i + 1)}))
	}
	c.stack = newStack(near, c.addrs...)
	server := newStack(far, serverAddr)
	listener, err := gonet.ListenTCP(server, tcpip.FullAddress{NIC: nic, Addr: serverAddr, Port: port}, ipv4.ProtocolNumber)
	check(err)
	go func() {
		for {
			conn, err := listener.Accept()
			check(err)
			go serve(conn, load)
		}
	}()

	before := resident()
	// A queue of connections to be accepted has its bounds: not all begin at once.
	gate := make(chan struct{}, 256)
	stays := load == "keep" || load == "some" || load == "rest"
	for i := 0; i < count; i++ {
		if stays {
			gate <- struct{}{}
			go func(nth int) {
				go c.play(nth, load)
				for ready.Load() < int64(nth)-200 {
					time.Sleep(100 * time.Microsecond)
				}
				<-gate
			}(i)
		} else {
			go c.play(i, load)
		}
	}
	for stays && ready.Load() < int64(count) {
		time.Sleep(time.Millisecond)
	}
	if load == "rest" {
		fmt.Printf("{\"bytes\":%.0f}\n", (resident()-before)/float64(2*count))
		return
	}
	time.Sleep(time.Duration(seconds / 4 * 1e9))
	begin, first, used := time.Now(), done.Load(), cpu()
	time.Sleep(time.Duration(seconds * 1e9))
	took, number := time.Since(begin).Seconds(), float64(done.Load()-first)
	used = cpu() - used
	if load == "bulk" {
		fmt.Printf("{\"gbit\":%f,\"cpu_us\":%f}\n", number*8e-9/took, used)
		return
	}
	fmt.Printf("{\"per_s\":%f,\"cpu_us\":%f}\n", number/took, used/number)
}
