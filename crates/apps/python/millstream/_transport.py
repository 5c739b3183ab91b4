"""A connection of a stack, as asyncio's protocols see it."""

import asyncio
import asyncio.constants
import asyncio.transports
import collections
import socket as _kernel
import warnings
from typing import TYPE_CHECKING, Any, Iterable

from ._bridge import BAD, IN, OUT, Bridge
from ._socket import Socket

if TYPE_CHECKING:
    from ._server import Server

#: Bytes of one read.
_READ_MAX = 256 * 1024


class Transport(asyncio.transports._FlowControlMixin, asyncio.Transport):
    """A connection. How a protocol is paused and resumed is asyncio's own part (the mixin)."""

    #: asyncio asks for these, and for the mixin, before it puts TLS or a file on a transport.
    _start_tls_compatible = True
    _sendfile_compatible = asyncio.constants._SendfileMode.FALLBACK

    #: The mixin's.
    _loop: asyncio.AbstractEventLoop

    def __init__(self, bridge: Bridge, sock: Socket, protocol: asyncio.BaseProtocol, server: "Server | None" = None,
                 waiter: "asyncio.Future[None] | None" = None) -> None:
        extra = {"socket": sock, "sockname": sock.getsockname(), "peername": sock.getpeername()}
        super().__init__(extra, bridge.loop)
        self._bridge, self._sock, self._server = bridge, sock, server
        self._buffer: "collections.deque[memoryview]" = collections.deque()
        self._size = 0
        self._paused = False
        self._closing = False
        self._lost = False
        self._eof = False
        self._peer_done = False
        bridge.enter()
        if server is not None:
            server._attach(self)
        self.set_protocol(protocol)
        # As asyncio does: small writes leave at once.
        sock.setsockopt(_kernel.IPPROTO_TCP, _kernel.TCP_NODELAY, 1)
        self._loop.call_soon(protocol.connection_made, self)
        self._loop.call_soon(self._watch)
        if waiter is not None:
            self._loop.call_soon(self._made, waiter)

    @staticmethod
    def _made(waiter: "asyncio.Future[None]") -> None:
        if not waiter.done():
            waiter.set_result(None)

    def __repr__(self) -> str:
        state = "closed" if self._lost else "closing" if self._closing else "open"
        return f"<millstream.Transport {state} {self._sock!r}>"

    def __del__(self) -> None:
        if not self._lost:
            warnings.warn(f"unclosed transport {self!r}", ResourceWarning, source=self)
            self._sock.close()

    # --- the protocol -----------------------------------------------------------------------------------------------

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        """Give what arrives to another protocol."""
        self._protocol: Any = protocol
        self._buffered = isinstance(protocol, asyncio.BufferedProtocol)

    def get_protocol(self) -> asyncio.BaseProtocol:
        """The protocol."""
        protocol: asyncio.BaseProtocol = self._protocol
        return protocol

    # --- receiving --------------------------------------------------------------------------------------------------

    def is_reading(self) -> bool:
        """Does the protocol get what arrives?"""
        return not (self._paused or self._closing)

    def pause_reading(self) -> None:
        """Let what arrives wait; the peer is held back when the receive buffer is full."""
        if self.is_reading():
            self._paused = True
            self._watch()

    def resume_reading(self) -> None:
        """Go on."""
        if self._paused and not self._closing:
            self._paused = False
            self._watch()

    def _watch(self) -> None:
        if self._lost:
            return
        reading = self.is_reading() and not self._peer_done
        self._bridge.watch(self._sock, (IN if reading else 0) | (OUT if self._buffer else 0), self._ready)

    def _ready(self, events: int) -> None:
        try:
            if events & (IN | BAD) and self.is_reading() and not self._peer_done:
                self._read()
            if events & (OUT | BAD) and self._buffer:
                self._flush()
        except OSError as error:
            self._fail(error)
        except (SystemExit, KeyboardInterrupt):
            raise
        except BaseException as error:
            self._fail(error, "an error in a protocol")

    def _read(self) -> None:
        try:
            if self._buffered:
                count = self._sock.recv_into(self._protocol.get_buffer(-1))
                if count:
                    self._protocol.buffer_updated(count)
                    return
            else:
                data = self._sock.recv(_READ_MAX)
                if data:
                    self._protocol.data_received(data)
                    return
        except BlockingIOError:
            return
        self._peer_done = True
        if self._protocol.eof_received():
            # The protocol may go on sending.
            self._watch()
        else:
            self.close()

    # --- sending ----------------------------------------------------------------------------------------------------

    def write(self, data: Any) -> None:
        """Send, now or when there is room."""
        if not isinstance(data, (bytes, bytearray, memoryview)):
            raise TypeError(f"data argument must be a bytes-like object, not {type(data).__name__!r}")
        if self._eof:
            raise RuntimeError("Cannot call write() after write_eof()")
        if self._lost or not data:
            return
        if not self._buffer:
            try:
                sent = self._sock.send(data)
            except BlockingIOError:
                sent = 0
            except OSError as error:
                self._fail(error)
                return
            if sent == len(memoryview(data).cast("B")):
                return
            data = memoryview(data).cast("B")[sent:]
        # The caller may change what is not bytes.
        self._buffer.append(memoryview(bytes(data)))
        self._size += len(self._buffer[-1])
        self._watch()
        self._maybe_pause_protocol()  # type: ignore[attr-defined]

    def writelines(self, list_of_data: "Iterable[Any]") -> None:
        """Send several pieces."""
        self.write(b"".join(list_of_data))

    def _flush(self) -> None:
        while self._buffer:
            first = self._buffer[0]
            try:
                sent = self._sock.send(first)
            except BlockingIOError:
                break
            self._size -= sent
            if sent < len(first):
                self._buffer[0] = first[sent:]
                break
            self._buffer.popleft()
        self._maybe_resume_protocol()  # type: ignore[attr-defined]
        if self._buffer:
            return
        self._watch()
        if self._closing:
            self._end(None)
        elif self._eof:
            self._sock.shutdown(_kernel.SHUT_WR)

    def can_write_eof(self) -> bool:
        """It can."""
        return True

    def write_eof(self) -> None:
        """No more will be written; the peer learns it when everything is sent."""
        if self._closing or self._eof:
            return
        self._eof = True
        if not self._buffer:
            self._sock.shutdown(_kernel.SHUT_WR)

    def get_write_buffer_size(self) -> int:
        """Bytes that found no room yet."""
        return self._size

    # --- the end ----------------------------------------------------------------------------------------------------

    def is_closing(self) -> bool:
        """Is it closed, or about to be?"""
        return self._closing

    def close(self) -> None:
        """Send what is left, and end."""
        if self._closing:
            return
        self._closing = True
        self._watch()
        if not self._buffer:
            self._end(None)

    def abort(self) -> None:
        """End, whatever is left."""
        self._force_close(None)

    def _force_close(self, error: "BaseException | None") -> None:
        self._closing = True
        self._buffer.clear()
        self._size = 0
        self._end(error)

    def _fail(self, error: BaseException, message: str = "") -> None:
        if not isinstance(error, OSError):
            self._loop.call_exception_handler(
                {"message": message, "exception": error, "transport": self, "protocol": self._protocol})
        self._force_close(error)

    def _end(self, error: "BaseException | None") -> None:
        if self._lost:
            return
        self._lost = True
        self._bridge.watch(self._sock, 0, self._ready)
        self._loop.call_soon(self._tell_lost, error)

    def _tell_lost(self, error: "BaseException | None") -> None:
        try:
            self._protocol.connection_lost(error)
        finally:
            self._sock.close()
            self._bridge.leave()
            if self._server is not None:
                self._server._detach(self)
