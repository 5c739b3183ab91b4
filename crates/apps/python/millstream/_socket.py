"""The socket: what `socket.socket` can do for TCP, over a stack's."""

import io
import socket as _kernel
from typing import Any, Iterable

from . import _millstream

#: Bytes that `sendfile` reads at a time.
_BLOCK = 256 * 1024


class Socket(_millstream.Socket):
    """A TCP socket of a stack, with the methods, time-outs and errors of `socket.socket`.

    `fileno()` is the number that epoll sets of the stack know it by. It is no descriptor of the kernel's, and higher
    than any: `select`, `os.read` and other programs' libraries refuse it.
    """

    def __init__(self, stack: "_millstream.Stack", family: int = _kernel.AF_INET, fileno: "int | None" = None) -> None:
        self._stack = stack
        self._files = 0
        self._wants_close = False

    @property
    def family(self) -> _kernel.AddressFamily:
        """AF_INET or AF_INET6."""
        return _kernel.AddressFamily(self._family)

    @property
    def type(self) -> _kernel.SocketKind:
        """SOCK_STREAM."""
        return _kernel.SOCK_STREAM

    @property
    def proto(self) -> int:
        """IPPROTO_TCP."""
        return _kernel.IPPROTO_TCP

    @property
    def timeout(self) -> "float | None":
        """The time-out in seconds, or None."""
        return self.gettimeout()

    def setblocking(self, flag: bool) -> None:
        """settimeout(None) or settimeout(0)."""
        self.settimeout(None if flag else 0.0)

    def getblocking(self) -> bool:
        """Does it wait?"""
        return self.gettimeout() != 0.0

    def accept(self) -> "tuple[Socket, Any]":
        """Wait for the next connection: its socket and the peer's address."""
        number, peer = self._accept()
        sock = Socket(self._stack, self._family, number)
        sock.settimeout(_kernel.getdefaulttimeout())
        return sock, peer

    def dup(self) -> "Socket":
        """Another socket object for the same connection."""
        sock = Socket(self._stack, self._family, self._dup())
        sock.settimeout(self.gettimeout())
        return sock

    def recvfrom(self, bufsize: int, flags: int = 0) -> "tuple[bytes, None]":
        """recv, and no address: a connection's peer is known."""
        return self.recv(bufsize, flags), None

    def recvfrom_into(self, buffer: Any, nbytes: int = 0, flags: int = 0) -> "tuple[int, None]":
        """recv_into, and no address."""
        return self.recv_into(buffer, nbytes, flags), None

    def recvmsg(self, bufsize: int, ancbufsize: int = 0, flags: int = 0) -> "tuple[bytes, list[Any], int, None]":
        """recv, and nothing beside the bytes."""
        return self.recv(bufsize, flags), [], 0, None

    def sendmsg(self, buffers: "Iterable[Any]", ancdata: "Iterable[Any]" = (), flags: int = 0,
                address: None = None) -> int:
        """send what several buffers hold, without control messages."""
        if tuple(ancdata) or address is not None:
            raise OSError(95, "control messages and addresses are not supported")
        return self.send(b"".join(bytes(memoryview(part)) for part in buffers), flags)

    def sendfile(self, file: "io.BufferedIOBase", offset: int = 0, count: "int | None" = None) -> int:
        """Send a file from `offset` to its end, or `count` bytes of it; how many it was."""
        if not self.getblocking():
            raise ValueError("non-blocking sockets are not supported")
        if offset:
            file.seek(offset)
        sent = 0
        while count is None or sent < count:
            block = file.read(_BLOCK if count is None else min(_BLOCK, count - sent))
            if not block:
                break
            self.sendall(block)
            sent += len(block)
        return sent

    def makefile(self, mode: str = "r", buffering: "int | None" = None, *, encoding: "str | None" = None,
                 errors: "str | None" = None, newline: "str | None" = None) -> Any:
        """A file object for the socket; see `socket.socket.makefile`. The socket stays open until its files are
        closed."""
        if not set(mode) <= {"r", "w", "b"}:
            raise ValueError(f"invalid mode {mode!r} (only r, w, b allowed)")
        writing = "w" in mode
        reading = "r" in mode or not writing
        raw = _kernel.SocketIO(self, "r" * reading + "w" * writing)  # type: ignore[arg-type]
        self._files += 1
        if buffering is None or buffering < 0:
            buffering = io.DEFAULT_BUFFER_SIZE
        if buffering == 0:
            if "b" not in mode:
                raise ValueError("unbuffered streams must be binary")
            return raw
        if reading and writing:
            buffer: Any = io.BufferedRWPair(raw, raw, buffering)
        elif reading:
            buffer = io.BufferedReader(raw, buffering)
        else:
            buffer = io.BufferedWriter(raw, buffering)
        if "b" in mode:
            return buffer
        text = io.TextIOWrapper(buffer, encoding, errors, newline)
        text.mode = mode  # type: ignore[misc]
        return text

    def _decref_socketios(self) -> None:
        # A file of makefile's is closed.
        self._files -= 1
        if self._wants_close:
            self.close()

    def close(self) -> None:
        """Let the socket go, when its files are closed too."""
        self._wants_close = True
        if self._files <= 0:
            self._close()

    def __enter__(self) -> "Socket":
        return self

    def __exit__(self, *why: object) -> None:
        self.close()

    def __repr__(self) -> str:
        try:
            local = f", laddr={self.getsockname()}"
        except OSError:
            local = ""
        try:
            local += f", raddr={self.getpeername()}"
        except OSError:
            pass
        state = "[closed] " if self.fileno() == -1 else ""
        return f"<millstream.Socket {state}fd={self.fileno()}, family={self._family}{local}>"

    def __getstate__(self) -> None:
        raise TypeError("cannot pickle a socket")
