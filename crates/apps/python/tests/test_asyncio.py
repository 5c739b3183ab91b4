"""The stack in an asyncio event loop: streams, protocols, flow control, ends, TLS, beside the kernel's sockets and in
programs that have other things to do. Two stacks over shared memory."""

import asyncio
import contextlib
import gc
import select
import socket
import ssl
import subprocess
import tempfile
import time
import unittest

from bed import ONE, ONE6, TWO, beside, echo_once, exchange, payload, pair


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while some := await reader.read(65_536):
            writer.write(some)
            await writer.drain()
    except (ConnectionError, asyncio.CancelledError):
        pass
    finally:
        writer.close()


async def through(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, data: bytes) -> bytes:
    """Sends and receives until the end; what came back."""
    async def send() -> None:
        writer.write(data)
        await writer.drain()
        writer.write_eof()

    _, back = await asyncio.gather(send(), reader.read())
    writer.close()
    await writer.wait_closed()
    return back


class Loops(unittest.IsolatedAsyncioTestCase):
    def setUp(self) -> None:
        self.one, self.two = self.enterContext(pair())

    async def asyncTearDown(self) -> None:
        # The program that was closed is told so before the loop ends.
        await asyncio.sleep(0)
        for stack in (self.one, self.two):
            await self.until(lambda: stack.stats()["sock"]["descriptors"] == 0)

    async def until(self, true) -> None:
        for _ in range(500):
            if true():
                return
            await asyncio.sleep(0.01)
        self.fail("it did not become true")


class Streams(Loops):
    async def test_payload_both_ways(self) -> None:
        for host in (ONE, ONE6):
            async with await self.one.start_server(echo, host, 7) as server:
                self.assertEqual(server.sockets[0].getsockname()[:2], (host, 7))
                for count in (0, 1, 100_000, 3_000_000):
                    data = payload(count)
                    back = await through(*await self.two.open_connection(host, 7), data)
                    self.assertTrue(back == data, f"{host} {count}")

    async def test_many_at_once_beside_the_kernels(self) -> None:
        ours = await self.one.start_server(echo, ONE, 7, backlog=64)
        kernels = await asyncio.start_server(echo, "127.0.0.1", 0)
        data = [payload(30_000, seed) for seed in range(40)]

        async def one(part: bytes, kernel: bool) -> bool:
            if kernel:
                ends = await asyncio.open_connection(*kernels.sockets[0].getsockname())
            else:
                ends = await self.two.open_connection(ONE, 7)
            return await through(*ends, part) == part

        done = await asyncio.gather(*(one(part, index % 4 == 0) for index, part in enumerate(data)))
        self.assertTrue(all(done))
        for server in (ours, kernels):
            server.close()
            await server.wait_closed()

    async def test_every_interface(self) -> None:
        async with await self.one.start_server(echo, None, 7) as server:
            self.assertEqual(len(server.sockets), 2)
            for host in (ONE, ONE6):
                self.assertEqual(await through(*await self.two.open_connection(host, 7), b"abc"), b"abc")

    async def test_refused_and_late(self) -> None:
        with self.assertRaises(ConnectionRefusedError):
            await self.two.open_connection(ONE, 9)
        with self.assertRaises(TimeoutError):
            await asyncio.wait_for(self.two.open_connection("10.9.0.77", 9), 0.1)
        with self.assertRaises(socket.gaierror):
            await self.two.open_connection("no-such-host.invalid", 9)

    async def test_lines_and_their_limit(self) -> None:
        async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with contextlib.suppress(ValueError):
                while line := await reader.readline():
                    writer.write(line.upper())
            writer.close()

        async with await self.one.start_server(talk, ONE, 7, limit=100):
            reader, writer = await self.two.open_connection(ONE, 7)
            writer.writelines([b"one\n", b"two\n"])
            self.assertEqual([await reader.readline(), await reader.readline()], [b"ONE\n", b"TWO\n"])
            writer.write(b"x" * 1000)
            self.assertEqual(await reader.read(), b"")
            writer.close()

    async def test_the_other_end_is_reset(self) -> None:
        async with await self.one.start_server(lambda _, writer: writer.transport.abort(), ONE, 7):
            reader, writer = await self.two.open_connection(ONE, 7)
            with contextlib.suppress(ConnectionError):
                self.assertEqual(await reader.read(), b"")
            writer.close()

    async def test_a_server_that_serves_for_ever(self) -> None:
        server = await self.one.start_server(echo, ONE, 7, start_serving=False)
        self.assertFalse(server.is_serving())
        task = asyncio.create_task(server.serve_forever())
        await asyncio.sleep(0)
        self.assertTrue(server.is_serving())
        self.assertEqual(await through(*await self.two.open_connection(ONE, 7), b"abc"), b"abc")
        task.cancel()
        with self.assertRaises(asyncio.CancelledError):
            await task
        self.assertFalse(server.is_serving())
        with self.assertRaises(RuntimeError):
            await server.start_serving()


class Recorder(asyncio.Protocol):
    """Remembers what it is told."""

    def __init__(self) -> None:
        self.told: "list[str]" = []
        self.data = bytearray()
        self.lost = asyncio.get_running_loop().create_future()
        self.keep_open = False

    def connection_made(self, transport) -> None:
        self.transport = transport
        self.told.append("made")

    def data_received(self, data: bytes) -> None:
        self.data += data

    def eof_received(self) -> bool:
        self.told.append("eof")
        return self.keep_open

    def pause_writing(self) -> None:
        self.told.append("pause")

    def resume_writing(self) -> None:
        self.told.append("resume")

    def connection_lost(self, error: "Exception | None") -> None:
        self.told.append("lost")
        self.lost.set_result(error)


class Protocols(Loops):
    async def joined(self) -> "tuple[Recorder, Recorder]":
        """Two protocols, one at each end."""
        made: "list[Recorder]" = []

        def factory() -> Recorder:
            made.append(Recorder())
            return made[-1]

        server = await self.one.asyncio.create_server(factory, ONE, 0)
        port = server.sockets[0].getsockname()[1]
        _, here = await self.two.asyncio.create_connection(Recorder, ONE, port)
        await self.until(lambda: made and made[0].told)
        server.close()
        return here, made[0]

    async def test_pauses_and_ends(self) -> None:
        here, there = await self.joined()
        there.keep_open = True
        there.transport.pause_reading()
        self.assertFalse(there.transport.is_reading())
        data = payload(1_000_000) * 20
        here.transport.write(data)
        self.assertEqual(here.told, ["made", "pause"])
        self.assertGreater(here.transport.get_write_buffer_size(), 65_536)
        await asyncio.sleep(0.05)
        self.assertEqual(there.data, b"")
        here.transport.write_eof()
        with self.assertRaises(RuntimeError):
            here.transport.write(b"more")
        there.transport.resume_reading()
        await self.until(lambda: "eof" in there.told)
        self.assertTrue(there.data == data)
        self.assertEqual(here.told, ["made", "pause", "resume"])
        # The other half is still open.
        there.transport.write(b"yes")
        there.transport.close()
        self.assertTrue(there.transport.is_closing())
        self.assertIsNone(await there.lost)
        self.assertIsNone(await here.lost)
        self.assertEqual(here.data, b"yes")
        self.assertEqual(there.told, ["made", "eof", "lost"])

    async def test_what_is_written_before_the_end_arrives(self) -> None:
        here, there = await self.joined()
        data = payload(1_000_000) * 5
        here.transport.write(bytearray(data))
        here.transport.close()
        here.transport.close()
        self.assertIsNone(await there.lost)
        self.assertTrue(there.data == data)
        self.assertIsNone(await here.lost)

    async def test_limits_of_what_waits(self) -> None:
        here, there = await self.joined()
        here.transport.set_write_buffer_limits(low=10, high=20)
        self.assertEqual(here.transport.get_write_buffer_limits(), (10, 20))
        with self.assertRaises(ValueError):
            here.transport.set_write_buffer_limits(low=10, high=5)
        with self.assertRaises(TypeError):
            here.transport.write("text")
        self.assertEqual(here.transport.get_extra_info("peername"), there.transport.get_extra_info("sockname"))
        here.transport.abort()
        self.assertIsNone(await here.lost)
        await there.lost

    async def test_buffers_of_the_protocols_own(self) -> None:
        here, there = await self.joined()

        class Buffered(asyncio.BufferedProtocol):
            room, got, done = bytearray(1000), bytearray(), False

            def get_buffer(self, _: int) -> bytearray:
                return self.room

            def buffer_updated(self, count: int) -> None:
                self.got += self.room[:count]

            def eof_received(self) -> None:
                self.done = True

        buffered = Buffered()
        there.transport.set_protocol(buffered)
        data = payload(200_000)
        here.transport.write(data)
        here.transport.close()
        await self.until(lambda: buffered.done)
        self.assertTrue(buffered.got == data)

    async def test_an_error_of_a_protocol_ends_its_connection_only(self) -> None:
        here, there = await self.joined()
        other, _ = await self.joined()
        told: "list[dict]" = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))
        there.data_received = lambda _: 1 // 0  # type: ignore[method-assign]
        here.transport.write(b"!")
        self.assertIsInstance(await there.lost, ZeroDivisionError)
        self.assertIsInstance(told[0]["exception"], ZeroDivisionError)
        self.assertFalse(other.transport.is_closing())
        other.transport.close()
        await other.lost
        await here.lost


class Tls(Loops):
    def contexts(self) -> "tuple[ssl.SSLContext, ssl.SSLContext]":
        folder = self.enterContext(tempfile.TemporaryDirectory())
        key, certificate = f"{folder}/key.pem", f"{folder}/certificate.pem"
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                        "-keyout", key, "-out", certificate, "-days", "2", "-subj", "/CN=test.invalid",
                        "-addext", "subjectAltName=DNS:test.invalid"], check=True, capture_output=True)
        server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        server.load_cert_chain(certificate, key)
        return server, ssl.create_default_context(cafile=certificate)

    async def test_both_ends(self) -> None:
        server_side, client_side = self.contexts()

        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(await reader.readexactly(500_000))
            await writer.drain()
            writer.close()

        data = payload(500_000)
        async with await self.one.start_server(answer, ONE, 443, ssl=server_side):
            reader, writer = await self.two.open_connection(ONE, 443, ssl=client_side, server_hostname="test.invalid")
            writer.write(data)
            self.assertTrue(await reader.readexactly(len(data)) == data)
            self.assertIn("TLS", writer.get_extra_info("cipher")[1])
            writer.close()
            await writer.wait_closed()
            with self.assertRaises(ssl.SSLCertVerificationError):
                await self.two.open_connection(ONE, 443, ssl=client_side, server_hostname="other.invalid")

    async def test_a_connection_becomes_secure(self) -> None:
        server_side, client_side = self.contexts()

        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readline()
            await writer.start_tls(server_side)
            writer.write(await reader.readline())
            writer.close()

        async with await self.one.start_server(answer, ONE, 7):
            reader, writer = await self.two.open_connection(ONE, 7)
            writer.write(b"STARTTLS\n")
            await writer.start_tls(client_side, server_hostname="test.invalid")
            writer.write(b"hidden\n")
            self.assertEqual(await reader.readline(), b"hidden\n")
            writer.close()


class Guests(Loops):
    """The loop and others."""

    async def test_a_loop_that_is_busy_is_stood_in_for(self) -> None:
        async with await self.one.start_server(echo, ONE, 7):
            reader, writer = await self.two.open_connection(ONE, 7)
            writer.write(b"x" * 1000)
            self.assertEqual(await reader.readexactly(1000), b"x" * 1000)
            await asyncio.sleep(0.05)
            # What is sent now is acknowledged though no client comes back to the loop.
            other = self.two.create_connection((ONE, 7), timeout=5)
            other.send(b"y" * 1000)
            begin = time.monotonic()
            while other.unsent() and time.monotonic() < begin + 1:
                time.sleep(0.005)
            self.assertEqual(other.unsent(), 0)
            other.close()
            writer.close()

    async def test_threads_wait_on_the_same_stack(self) -> None:
        server = self.one.create_server((ONE, 0))
        served = beside(echo_once, server)
        async with await self.one.start_server(echo, ONE, 7):
            data = payload(500_000)

            def client() -> bytes:
                with self.two.create_connection(server.getsockname(), timeout=20) as sock:
                    return exchange(sock, data)

            running = asyncio.get_running_loop().run_in_executor(None, client)
            for _ in range(20):
                self.assertEqual(await through(*await self.two.open_connection(ONE, 7), b"abc" * 1000), b"abc" * 1000)
            self.assertTrue(await running == data)
        self.assertEqual(await asyncio.wrap_future(served), len(data))
        server.close()

    async def test_a_quiet_loop_sleeps(self) -> None:
        async with await self.one.start_server(echo, ONE, 7):
            reader, writer = await self.two.open_connection(ONE, 7)
            writer.write(b"a")
            await reader.readexactly(1)
            await asyncio.sleep(0.3)
            begin = time.process_time()
            await asyncio.sleep(0.5)
            self.assertLess(time.process_time() - begin, 0.1)
            writer.close()

    async def test_timers_run_in_a_sleeping_loop(self) -> None:
        # No host has this address: the connect ends when its retries do, which only timers bring about.
        self.two.set_sysctl("net.inet.tcp.syn_retries", "1")
        begin = time.monotonic()
        with self.assertRaises(OSError):
            await self.two.open_connection("10.9.0.77", 9)
        self.assertLess(time.monotonic() - begin, 8)


class OtherLoops(unittest.TestCase):
    """`Epoll.fileno` in a loop of the program's own, and loops one after the other."""

    def test_a_select_of_ones_own(self) -> None:
        with pair() as (one, two), one.epoll() as epoll, one.create_server((ONE, 0)) as server:
            server.setblocking(False)
            epoll.register(server, select.EPOLLIN)

            def wait(seconds: float) -> bool:
                return bool(select.select([epoll.fileno()], [], [], seconds)[0])

            # Drains what there was before.
            self.assertTrue(wait(5))
            self.assertEqual(epoll.poll(0), [])
            self.assertFalse(wait(0.05))
            connecting = beside(two.create_connection, server.getsockname(), 10.0)
            found = []
            while not found:
                self.assertTrue(wait(10))
                found = epoll.poll(0)
            self.assertEqual(found, [(server.fileno(), select.EPOLLIN)])
            # A level: it stays until it is dealt with.
            self.assertTrue(wait(0))
            self.assertEqual(epoll.poll(0), found)
            accepted, _ = server.accept()
            while wait(0.05):
                self.assertEqual(epoll.poll(0), [])
            # Waiting in a call and in select, in turn.
            epoll.register(accepted, select.EPOLLIN)
            client = connecting.result(10)
            client.send(b"a")
            self.assertEqual(epoll.poll(10), [(accepted.fileno(), select.EPOLLIN)])
            self.assertTrue(wait(5))
            self.assertEqual(accepted.recv(10), b"a")
            while wait(0.05):
                self.assertEqual(epoll.poll(0), [])
            client.send(b"b")
            self.assertTrue(wait(5))
            accepted.close()
            client.close()

    def test_loops_one_after_the_other(self) -> None:
        with pair() as (one, two):
            async def program() -> bytes:
                async with await one.start_server(echo, ONE, 7):
                    return await through(*await two.open_connection(ONE, 7), b"abc")

            for _ in range(3):
                self.assertEqual(asyncio.run(program()), b"abc")

            async def forgets() -> None:
                await one.start_server(echo, ONE, 8)
                await two.open_connection(ONE, 8)

            with self.assertWarns(ResourceWarning):
                asyncio.run(forgets())
                gc.collect()
            # Sockets of Python's own go on.
            with one.create_server((ONE, 9)) as server:
                served = beside(echo_once, server)
                with two.create_connection((ONE, 9), timeout=10) as sock:
                    self.assertEqual(exchange(sock, b"abc"), b"abc")
                served.result(10)

    def test_a_stack_that_is_closed_is_told(self) -> None:
        with pair() as (one, two):
            async def program() -> "list[str]":
                told: "list[str]" = []
                asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context["message"]))
                server = await one.start_server(echo, ONE, 7)
                reader, writer = await two.open_connection(ONE, 7)
                two.close(0)
                with self.assertRaises(OSError):
                    await asyncio.wait_for(reader.read(), 5)
                writer.close()
                server.close()
                return told

            self.assertIn("a stack is gone", "".join(asyncio.run(program())))


if __name__ == "__main__":
    unittest.main()
