"""Signals: an exception of a handler ends a call that waits, anything else lets it go on."""

import signal
import threading
import time
import unittest

from bed import ONE, beside, pair


class Interrupted(Exception):
    pass


class Signals(unittest.TestCase):
    def setUp(self) -> None:
        self.one, self.two = self.enterContext(pair())
        self.seen = 0

    def alarm(self, handler, seconds: float = 0.05) -> None:
        before = signal.signal(signal.SIGALRM, handler)
        self.addCleanup(signal.signal, signal.SIGALRM, before)
        signal.setitimer(signal.ITIMER_REAL, seconds)
        self.addCleanup(signal.setitimer, signal.ITIMER_REAL, 0)

    def raises(self, *_: object) -> None:
        raise Interrupted

    def counts(self, *_: object) -> None:
        self.seen += 1

    def ends(self, call, *arguments: object) -> None:
        self.alarm(self.raises)
        begin = time.monotonic()
        with self.assertRaises(Interrupted):
            call(*arguments)
        self.assertLess(time.monotonic() - begin, 0.9)

    def test_every_call_that_waits_can_be_ended(self) -> None:
        with self.one.create_server((ONE, 0)) as server:
            client = self.two.create_connection(server.getsockname())
            accepted, _ = server.accept()
            self.ends(server.accept)
            self.ends(client.recv, 1)
            self.ends(client.sendall, bytes(50_000_000))
            with self.one.epoll() as epoll:
                self.ends(epoll.poll)
            self.ends(self.two.socket().connect, ("10.9.0.77", 1))
            client.settimeout(30)
            self.ends(client.recv, 1)

    def test_also_when_another_thread_turns_the_stack(self) -> None:
        with self.one.create_server((ONE, 0)) as server:
            waiting = beside(server.accept)
            time.sleep(0.02)
            with self.one.create_server((ONE, 0)) as second:
                self.ends(second.accept)
            client = self.two.create_connection(server.getsockname())
            self.assertEqual(waiting.result(10)[1], client.getsockname())

    def test_ctrl_c(self) -> None:
        # The end that started the tests may ignore it.
        self.addCleanup(signal.signal, signal.SIGINT, signal.signal(signal.SIGINT, signal.default_int_handler))
        with self.one.create_server((ONE, 0)) as server:
            main = threading.main_thread().ident
            assert main is not None
            timer = threading.Timer(0.05, signal.pthread_kill, (main, signal.SIGINT))
            timer.start()
            with self.assertRaises(KeyboardInterrupt):
                server.accept()
            timer.join()

    def test_a_handler_that_returns_lets_the_call_go_on(self) -> None:
        with self.one.create_server((ONE, 0)) as server:
            client = self.two.create_connection(server.getsockname(), timeout=10)
            accepted, _ = server.accept()
            self.alarm(self.counts)
            threading.Timer(0.15, accepted.send, (b"after",)).start()
            self.assertEqual(client.recv(100), b"after")
            self.assertEqual(self.seen, 1)
            # The time-out goes on counting meanwhile.
            client.settimeout(0.15)
            self.alarm(self.counts)
            begin = time.monotonic()
            with self.assertRaises(TimeoutError):
                client.recv(1)
            self.assertEqual(self.seen, 2)
            self.assertLess(time.monotonic() - begin, 1)

    def test_a_handler_may_use_the_stack(self) -> None:
        with self.one.create_server((ONE, 0)) as server:
            client = self.two.create_connection(server.getsockname(), timeout=10)
            accepted, _ = server.accept()
            self.alarm(lambda *_: accepted.send(b"from the handler"))
            self.assertEqual(client.recv(100), b"from the handler")


if __name__ == "__main__":
    unittest.main()
