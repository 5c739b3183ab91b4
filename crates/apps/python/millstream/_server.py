"""Listening sockets of a stack in an asyncio event loop."""

import asyncio
from typing import Callable

from ._bridge import IN, Bridge
from ._socket import Socket
from ._transport import Transport

#: Makes a protocol for each connection.
Factory = Callable[[], asyncio.BaseProtocol]


class Server(asyncio.AbstractServer):
    """Listening sockets of a stack in an event loop, with the methods of `asyncio.Server`."""

    def __init__(self, bridge: Bridge, socks: "list[Socket]", factory: Factory, backlog: int,
                 secure: "Callable[[asyncio.BaseProtocol], asyncio.BaseProtocol]") -> None:
        self._bridge, self._factory, self._backlog, self._secure = bridge, factory, backlog, secure
        self._listeners: "list[Socket] | None" = socks
        self._transports: "set[Transport]" = set()
        self._waiters: "list[asyncio.Future[None]]" = []
        self._serving = False
        self._forever: "asyncio.Future[None] | None" = None
        bridge.enter()

    def get_loop(self) -> asyncio.AbstractEventLoop:
        """Its event loop."""
        return self._bridge.loop

    @property
    def sockets(self) -> "tuple[Socket, ...]":
        """The sockets that listen."""
        return tuple(self._listeners or ())

    def is_serving(self) -> bool:
        """Does it accept connections?"""
        return self._serving

    def _start(self) -> None:
        if self._listeners is None:
            raise RuntimeError(f"server {self!r} is closed")
        if self._serving:
            return
        self._serving = True
        for sock in self._listeners:
            sock.listen(self._backlog)
            self._bridge.watch(sock, IN, lambda _, sock=sock: self._accept(sock))  # type: ignore[misc]

    async def start_serving(self) -> None:
        """Accept connections, if it does not yet."""
        self._start()
        await asyncio.sleep(0)

    async def serve_forever(self) -> None:
        """Accept connections until the task is cancelled; then close."""
        if self._forever is not None:
            raise RuntimeError(f"server {self!r} is already being awaited on serve_forever()")
        self._start()
        self._forever = self._bridge.loop.create_future()
        try:
            await self._forever
        except asyncio.CancelledError:
            self.close()
            await self.wait_closed()
            raise
        finally:
            self._forever = None

    def _accept(self, sock: Socket) -> None:
        for _ in range(self._backlog):
            try:
                accepted, _ = sock.accept()
            except (BlockingIOError, ConnectionAbortedError):
                return
            except OSError as error:
                self._bridge.loop.call_exception_handler(
                    {"message": "a server cannot accept connections", "exception": error, "socket": sock})
                return
            try:
                accepted.setblocking(False)
                Transport(self._bridge, accepted, self._secure(self._factory()), self)
            except OSError:
                # It has ended before it was served.
                accepted.close()

    def _attach(self, transport: Transport) -> None:
        self._transports.add(transport)

    def _detach(self, transport: Transport) -> None:
        self._transports.discard(transport)
        self._wake()

    def _wake(self) -> None:
        if self._listeners is None and not self._transports:
            for waiter in self._waiters:
                if not waiter.done():
                    waiter.set_result(None)
            self._waiters.clear()

    def close(self) -> None:
        """Listen no more; connections go on."""
        if self._listeners is None:
            return
        listeners, self._listeners = self._listeners, None
        self._serving = False
        for sock in listeners:
            self._bridge.watch(sock, 0, lambda _: None)
            sock.close()
        if self._forever is not None and not self._forever.done():
            self._forever.cancel()
        self._wake()
        self._bridge.leave()

    def close_clients(self) -> None:
        """Close its connections, too."""
        for transport in list(self._transports):
            transport.close()

    def abort_clients(self) -> None:
        """The same, whatever they have left to send."""
        for transport in list(self._transports):
            transport.abort()

    async def wait_closed(self) -> None:
        """Until it is closed and its connections have ended."""
        if self._listeners is None and not self._transports:
            return
        waiter = self._bridge.loop.create_future()
        self._waiters.append(waiter)
        await waiter
