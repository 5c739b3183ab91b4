"""Sockets behave as Python's own: bytes, errors, time-outs, options, files. Two stacks over shared memory."""

import array
import errno
import gc
import io
import os
import pathlib
import select
import socket
import struct
import time
import unittest

import millstream
from bed import ONE, ONE6, TWO, TWO6, beside, echo_once, exchange, payload, pair


class Pair(unittest.TestCase):
    def setUp(self) -> None:
        self.one, self.two = self.enterContext(pair())

    def connected(self, family=socket.AF_INET):
        """A connection: its ends on both stacks."""
        host = ONE if family == socket.AF_INET else ONE6
        with self.one.create_server((host, 0), family=family) as server:
            client = self.two.create_connection(server.getsockname()[:2], timeout=10)
            accepted, peer = server.accept()
        self.assertEqual(peer, client.getsockname())
        client.settimeout(10)
        accepted.settimeout(10)
        self.addCleanup(client.close)
        self.addCleanup(accepted.close)
        return client, accepted


class Payload(Pair):
    def test_what_is_sent_comes_back(self) -> None:
        for family, host in ((socket.AF_INET, ONE), (socket.AF_INET6, ONE6)):
            for count in (0, 1, 1448, 100_000, 3_000_000):
                with self.subTest(host=host, count=count):
                    with self.one.create_server((host, 0), family=family) as server:
                        served = beside(echo_once, server)
                        data = payload(count)
                        with self.two.create_connection(server.getsockname()[:2], timeout=20) as sock:
                            self.assertEqual(exchange(sock, data) == data, True)
                        self.assertEqual(served.result(20), count)

    def test_every_kind_of_buffer_is_sent(self) -> None:
        client, accepted = self.connected()
        words = array.array("I", [1, 2, 3])
        for data in (b"abc", bytearray(b"defg"), memoryview(b"0123456789")[2:5], words):
            self.assertEqual(client.send(data), len(bytes(data)))
            self.assertEqual(accepted.recv(100), bytes(data))
        self.assertEqual(client.sendmsg([b"ab", bytearray(b"cd"), memoryview(b"ef")]), 6)
        self.assertEqual(accepted.recvmsg(100), (b"abcdef", [], 0, None))
        with self.assertRaises(TypeError):
            client.send("text")
        with self.assertRaises(BufferError):
            client.send(memoryview(b"abcdef")[::2])

    def test_large_buffers_that_are_not_bytes(self) -> None:
        client, accepted = self.connected()
        data = payload(1_000_000)
        received = beside(accepted.recv, len(data), socket.MSG_WAITALL)
        client.sendall(bytearray(data))
        self.assertTrue(received.result(20) == data)

    def test_receiving_into_buffers(self) -> None:
        client, accepted = self.connected()
        client.sendall(b"0123456789")
        into = bytearray(b"." * 12)
        self.assertEqual(accepted.recv_into(memoryview(into)[2:6]), 4)
        self.assertEqual(into, b"..0123......")
        self.assertEqual(accepted.recv_into(into, 3), 3)
        self.assertEqual(into[:4], b"4561")
        words = array.array("H", [0, 0])
        self.assertEqual(accepted.recv_into(words), 3)
        self.assertEqual(words.tobytes(), b"789\0")
        for bad, error in ((b"readonly", TypeError), ("text", TypeError)):
            with self.assertRaises(error):
                accepted.recv_into(bad)
        with self.assertRaises(ValueError):
            accepted.recv_into(bytearray(2), 3)
        with self.assertRaises(ValueError):
            accepted.recv(-1)
        self.assertEqual(accepted.recv(0), b"")

    def test_flags(self) -> None:
        client, accepted = self.connected()
        with self.assertRaises(BlockingIOError):
            accepted.recv(1, socket.MSG_DONTWAIT)
        client.send(b"ab", socket.MSG_MORE)
        client.send(b"cd")
        self.assertEqual(accepted.recv(4, socket.MSG_WAITALL), b"abcd")
        client.send(b"ef")
        self.assertEqual(accepted.recv(1, socket.MSG_PEEK), b"e")
        self.assertEqual(accepted.readable(), 2)
        self.assertEqual(accepted.recv(9), b"ef")
        for call in (lambda: client.send(b"x", socket.MSG_OOB), lambda: accepted.recv(1, socket.MSG_OOB)):
            with self.assertRaises(OSError):
                call()
        client.sendall(b"gh")
        client.shutdown(socket.SHUT_WR)
        self.assertEqual(accepted.recv(100, socket.MSG_WAITALL), b"gh")
        self.assertEqual(accepted.recv(100), b"")

    def test_files(self) -> None:
        client, accepted = self.connected()
        with client.makefile("w", encoding="utf-8", newline="\n") as out:
            out.write("first\nsecond ü\n")
        with accepted.makefile("rb") as lines:
            self.assertEqual(lines.readline(), b"first\n")
            self.assertEqual(lines.readline().decode(), "second ü\n")
        with accepted.makefile("rwb") as both:
            both.write(b"back\n")
            both.flush()
            client.sendall(b"there\n")
            self.assertEqual(both.readline(), b"there\n")
        self.assertEqual(client.recv(100), b"back\n")
        # A socket lives as long as its files.
        reader = client.makefile("rb")
        client.close()
        accepted.sendall(b"late")
        accepted.shutdown(socket.SHUT_WR)
        self.assertEqual(reader.read(), b"late")
        reader.close()
        self.assertEqual(client.fileno(), -1)

    def test_sendfile(self) -> None:
        client, accepted = self.connected()
        data = payload(700_000)
        received = beside(accepted.recv, 600_000, socket.MSG_WAITALL)
        self.assertEqual(client.sendfile(io.BytesIO(data), 50_000, 600_000), 600_000)
        self.assertTrue(received.result(20) == data[50_000:650_000])

    def test_threads_share_a_stack(self) -> None:
        with self.one.create_server((ONE, 0)) as server:
            def serve() -> None:
                for _ in range(8):
                    connection, _ = server.accept()
                    beside(self.echo, connection)

            beside(serve)
            data = [payload(200_000, seed) for seed in range(8)]

            def client(data: bytes) -> bytes:
                with self.two.create_connection(server.getsockname(), timeout=30) as sock:
                    return exchange(sock, data)

            back = [beside(client, part) for part in data]
            self.assertTrue(all(future.result(30) == part for future, part in zip(back, data)))

    @staticmethod
    def echo(connection) -> None:
        with connection:
            while some := connection.recv(65536):
                connection.sendall(some)


class Errors(Pair):
    def test_they_are_pythons(self) -> None:
        with self.assertRaises(ConnectionRefusedError) as refused:
            self.two.create_connection((ONE, 9), timeout=5)
        self.assertEqual((refused.exception.errno, refused.exception.strerror), (errno.ECONNREFUSED, "Connection refused"))
        sock = self.two.socket()
        self.assertEqual(sock.connect_ex((ONE, 9)), errno.ECONNREFUSED)
        sock.close()
        for call in (lambda: sock.recv(1), lambda: sock.send(b""), sock.getsockname, lambda: sock.connect((ONE, 9))):
            with self.assertRaises(OSError) as closed:
                call()
            self.assertEqual(closed.exception.errno, errno.EBADF)
        sock.close()
        self.assertEqual(sock.fileno(), -1)

    def test_addresses(self) -> None:
        with self.one.create_server((ONE, 0)) as server, self.one.socket() as second:
            with self.assertRaises(OSError) as taken:
                second.bind(server.getsockname())
            self.assertEqual(taken.exception.errno, errno.EADDRINUSE)
            with self.assertRaises(OSError) as elsewhere:
                second.bind(("192.0.2.1", 0))
            self.assertEqual(elsewhere.exception.errno, errno.EADDRNOTAVAIL)
            for bad, error in (("10.0.0.1", TypeError), ((ONE,), TypeError), ((ONE, 70_000), OverflowError),
                               ((ONE, -1), OverflowError), ((1, 2), TypeError), (("fd09::1", 1), socket.gaierror)):
                with self.subTest(bad=bad), self.assertRaises(error):
                    second.bind(bad)
            second.bind(("", 0))
            self.assertEqual(second.getsockname()[0], "0.0.0.0")
        with self.one.socket(socket.AF_INET6) as six:
            self.assertEqual(six.getsockname(), ("::", 0, 0, 0))
            six.bind(("::", 0, 0, 0))

    def test_the_other_end_went_away(self) -> None:
        client, accepted = self.connected()
        accepted.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        accepted.close()
        with self.assertRaises(ConnectionResetError):
            client.recv(1)
        client, accepted = self.connected()
        client.shutdown(socket.SHUT_WR)
        with self.assertRaises(BrokenPipeError):
            client.send(b"x")
        with self.assertRaises(OSError) as unconnected:
            self.one.socket().getpeername()
        self.assertEqual(unconnected.exception.errno, errno.ENOTCONN)

    def test_kinds_of_socket(self) -> None:
        for arguments in ((socket.AF_INET, socket.SOCK_DGRAM), (socket.AF_UNIX,), (socket.AF_INET, 1, 17)):
            with self.subTest(arguments=arguments), self.assertRaises(OSError):
                self.one.socket(*arguments)

    def test_settings_that_cannot_be(self) -> None:
        with self.assertRaisesRegex(ValueError, "colour"):
            millstream.open("tap:x", colour="red")
        with self.assertRaisesRegex(OSError, "nowhere"):
            millstream.open("shm:/nowhere/at/all")


class Waiting(Pair):
    def test_time_outs(self) -> None:
        client, _ = self.connected()
        client.settimeout(0.05)
        begin = time.monotonic()
        with self.assertRaises(TimeoutError) as late:
            client.recv(1)
        self.assertEqual(str(late.exception), "timed out")
        self.assertTrue(0.04 < time.monotonic() - begin < 5)
        with self.one.create_server((ONE, 0)) as server:
            server.settimeout(0.05)
            with self.assertRaises(TimeoutError):
                server.accept()
        with self.assertRaises(TimeoutError):
            self.two.create_connection(("10.9.0.77", 1), timeout=0.1)
        client.settimeout(0.2)
        with self.assertRaises(TimeoutError):
            client.sendall(bytes(100_000_000))
        self.assertEqual((client.gettimeout(), client.timeout, client.getblocking()), (0.2, 0.2, True))
        with self.assertRaises(ValueError):
            client.settimeout(-1)

    def test_not_waiting(self) -> None:
        with self.one.create_server((ONE, 0)) as server:
            server.setblocking(False)
            with self.assertRaises(BlockingIOError) as nobody:
                server.accept()
            self.assertEqual(nobody.exception.errno, errno.EAGAIN)
            client = self.two.socket(type=socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
            self.assertFalse(client.getblocking())
            with self.assertRaises(BlockingIOError) as begun:
                client.connect(server.getsockname())
            self.assertEqual(begun.exception.errno, errno.EINPROGRESS)
            with self.two.epoll() as epoll:
                epoll.register(client, select.EPOLLOUT)
                self.assertEqual(epoll.poll(10), [(client.fileno(), select.EPOLLOUT)])
            self.assertEqual(client.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR), 0)
            # As on Linux the first call afterwards tells how it went.
            self.assertEqual(client.connect_ex(server.getsockname()), 0)
            self.assertEqual(client.connect_ex(server.getsockname()), errno.EISCONN)
            client.close()

    def test_default_time_out(self) -> None:
        self.addCleanup(socket.setdefaulttimeout, None)
        socket.setdefaulttimeout(3.5)
        with self.one.socket() as sock:
            self.assertEqual(sock.gettimeout(), 3.5)

    def test_others_run_meanwhile(self) -> None:
        client, accepted = self.connected()
        accepted.settimeout(None)
        waiting = beside(accepted.recv, 1)
        time.sleep(0.05)
        self.assertFalse(waiting.done())
        client.send(b"!")
        self.assertEqual(waiting.result(10), b"!")


class Options(Pair):
    def test_by_number_and_by_payload(self) -> None:
        client, _ = self.connected()
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.assertEqual(client.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY), 1)
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"newreno")
        name = client.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16)
        self.assertEqual(name.rstrip(b"\0"), b"newreno")
        self.assertEqual(client.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104)[0], 1)
        with self.assertRaises(OSError) as unknown:
            client.setsockopt(socket.SOL_SOCKET, 9_999, 1)
        self.assertEqual(unknown.exception.errno, errno.ENOPROTOOPT)
        self.assertEqual(client.getsockopt(socket.SOL_SOCKET, socket.SO_TYPE), client.type)
        self.assertEqual((client.family, client.proto), (socket.AF_INET, socket.IPPROTO_TCP))

    def test_multipath_tcp_is_taken_as_tcp(self) -> None:
        with self.one.socket(socket.AF_INET, socket.SOCK_STREAM, 262) as sock:
            self.assertEqual(sock.proto, socket.IPPROTO_TCP)
        with self.assertRaises(OSError) as unknown:
            self.one.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_UDP)
        self.assertEqual(unknown.exception.errno, errno.EPROTONOSUPPORT)

    def test_both_families_on_one_port(self) -> None:
        with self.one.create_server(("", 0), family=socket.AF_INET6, dualstack_ipv6=True) as server:
            port = server.getsockname()[1]
            with self.two.create_connection((ONE, port), timeout=5) as client:
                accepted, peer = server.accept()
                self.assertEqual(peer[0], f"::ffff:{TWO}")
                self.assertEqual(peer[1], client.getsockname()[1])
                accepted.close()
            with self.two.create_connection((ONE6, port), source_address=(TWO6, 0), timeout=5) as client:
                accepted, peer = server.accept()
                self.assertEqual(peer, client.getsockname())
                accepted.close()


class Epoll(Pair):
    def test_levels_and_edges(self) -> None:
        client, accepted = self.connected()
        number = accepted.fileno()
        with self.one.epoll() as epoll:
            epoll.register(accepted)
            self.assertEqual(epoll.poll(10), [(number, select.EPOLLOUT)])
            epoll.modify(number, select.EPOLLIN)
            self.assertEqual(epoll.poll(0), [])
            client.send(b"ab")
            self.assertEqual(epoll.poll(10), [(number, select.EPOLLIN)])
            self.assertEqual(epoll.poll(), [(number, select.EPOLLIN)])
            epoll.modify(accepted, select.EPOLLIN | select.EPOLLET)
            self.assertEqual(epoll.poll(10, 1), [(number, select.EPOLLIN)])
            self.assertEqual(epoll.poll(0.01), [])
            with self.assertRaises(FileExistsError):
                epoll.register(accepted)
            epoll.unregister(accepted)
            with self.assertRaises(FileNotFoundError):
                epoll.unregister(accepted)
            with self.assertRaises(ValueError):
                epoll.poll(1, 0)
        self.assertTrue(epoll.closed)
        with self.assertRaises(ValueError):
            epoll.poll(0)

    def test_descriptors_of_the_kernel_are_told_apart(self) -> None:
        client, accepted = self.connected()
        with self.one.epoll() as epoll:
            with open(os.devnull) as file:
                for foreign in (0, file):
                    with self.assertRaisesRegex(ValueError, "kernel"):
                        epoll.register(foreign)
            with self.assertRaises(TypeError):
                epoll.register("text")
        with self.assertRaises(OSError) as refused:
            os.read(client.fileno(), 1)
        self.assertEqual(refused.exception.errno, errno.EBADF)
        with self.assertRaises(ValueError):
            select.select([client], [], [], 0)


class Life(Pair):
    def test_what_goes_on_is_shown(self) -> None:
        client, accepted = self.connected()
        client.sendall(b"x" * 1000)
        accepted.recv(1000, socket.MSG_WAITALL)
        row = next(row for row in self.one.connections() if row["state"] == "ESTABLISHED")
        self.assertEqual(row["bytes_received"], 1000)
        self.assertIn("stack", self.one.stats())
        self.one.set_sysctl("net.inet.tcp.cc.algorithm", "newreno")
        self.assertEqual(self.one.sysctl("net.inet.tcp.cc.algorithm"), "newreno")
        self.assertIn("net.inet.tcp.cc.algorithm", [row["name"] for row in self.one.sysctls("net.inet.tcp.cc")])
        with self.assertRaises(FileNotFoundError):
            self.one.sysctl("net.nothing")
        self.assertIn("link", [name for name, _, _ in millstream.settings()])

    def test_objects_that_nobody_keeps_are_closed(self) -> None:
        kept = [self.one.socket() for _ in range(3)]
        self.assertEqual(self.one.stats()["sock"]["descriptors"], 3)
        kept.clear()
        gc.collect()
        self.assertEqual(self.one.stats()["sock"]["descriptors"], 0)

    def test_dup(self) -> None:
        client, accepted = self.connected()
        other = client.dup()
        client.close()
        other.send(b"still there")
        self.assertEqual(accepted.recv(100), b"still there")
        other.close()
        self.assertEqual(accepted.recv(100), b"")

    def test_a_fork_leaves_the_stack_with_its_parent(self) -> None:
        client, accepted = self.connected()
        child = os.fork()
        if child == 0:
            code = 1
            try:
                try:
                    client.send(b"no")
                except ChildProcessError:
                    client.close()
                    self.one.close()
            except OSError as error:
                code = 0 if error.errno == errno.ECHILD else 2
            finally:
                os._exit(code)
        _, status = os.waitpid(child, 0)
        self.assertEqual(os.waitstatus_to_exitcode(status), 0)
        client.send(b"yes")
        self.assertEqual(accepted.recv(10), b"yes")


class Ends(unittest.TestCase):
    def test_a_link_is_free_when_its_stack_is_closed(self) -> None:
        for _ in range(3):
            with pair() as (one, two):
                with one.create_server((ONE, 0)) as server:
                    served = beside(echo_once, server)
                    with two.create_connection(server.getsockname(), timeout=10) as sock:
                        self.assertEqual(exchange(sock, b"again"), b"again")
                    served.result(10)
                # The stack's own thread has the link by now.
                time.sleep(0.1)
            self.assertTrue(one.closed and two.closed)
            with self.assertRaises(OSError):
                one.socket()
        names = [task.read_text() for task in pathlib.Path("/proc/self/task").glob("*/comm")]
        self.assertEqual([name for name in names if "watchdog" in name], [])

    def test_what_was_sent_before_the_end_arrives(self) -> None:
        with pair() as (one, two):
            with one.create_server((ONE, 0)) as server:
                client = two.create_connection(server.getsockname(), timeout=10)
                accepted, _ = server.accept()
                data = payload(300_000)
                sending = beside(client.sendall, data)
                received = beside(self.everything, accepted)
                sending.result(10)
                self.assertTrue(two.close(10))
                self.assertTrue(received.result(10) == data)

    @staticmethod
    def everything(sock) -> bytes:
        out = bytearray()
        while some := sock.recv(4096):
            out += some
        return bytes(out)


if __name__ == "__main__":
    unittest.main()
