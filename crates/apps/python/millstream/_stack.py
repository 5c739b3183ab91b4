"""The stack: sockets, servers, connections, and what can be seen of it."""

import json
import signal
import socket as _kernel
import threading
from typing import TYPE_CHECKING, Any

from . import _millstream
from ._millstream import Epoll
from ._socket import Socket

if TYPE_CHECKING:
    from asyncio import StreamReader, StreamWriter

    from ._asyncio import Async
    from ._server import Server

#: Older Pythons do not know it.
_IPPROTO_MPTCP = 262


def settings() -> "list[tuple[str, str, str]]":
    """Every setting of `open`: its name, what a value looks like, what it does."""
    return _millstream._settings()


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return ",".join(_text(part) for part in value)
    return str(value)


class Stack(_millstream.Stack):
    """One core's TCP stack: connections, ports and addresses of its own.

    Any number of threads may share it. It stays with the process that opened it: after a fork its calls fail with
    ECHILD in the child.
    """

    _async: "Async | None" = None

    @classmethod
    def _open(cls, given: "dict[str, object]", sysctl: "dict[str, object]", config: "str | None") -> "Stack":
        pairs = [(name, _text(value)) for name, value in given.items()]
        pairs += [(name, _text(value)) for name, value in sysctl.items()]
        # The stack's threads begin with the signals of the thread that makes them: signals are the program's.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        try:
            return cls(pairs, config)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def socket(self, family: int = _kernel.AF_INET, type: int = _kernel.SOCK_STREAM, proto: int = 0) -> Socket:
        """A new TCP socket, as `socket.socket` makes one of the kernel's. IPPROTO_MPTCP is taken as TCP."""
        if type & ~(_kernel.SOCK_NONBLOCK | _kernel.SOCK_CLOEXEC) != _kernel.SOCK_STREAM:
            raise OSError(94, "Socket type not supported: there is TCP only")
        if proto not in (0, _kernel.IPPROTO_TCP, _IPPROTO_MPTCP):
            raise OSError(93, "Protocol not supported: there is TCP only")
        sock = Socket(self, family)
        sock.settimeout(0.0 if type & _kernel.SOCK_NONBLOCK else _kernel.getdefaulttimeout())
        return sock

    def create_connection(self, address: "tuple[str | None, int]", timeout: "float | None | object" = ...,
                          source_address: "tuple[str, int] | None" = None, *, all_errors: bool = False) -> Socket:
        """Connect to `address`, a host and a port, by the first of its addresses that answers; see
        `socket.create_connection`."""
        host, port = address
        errors: "list[OSError]" = []
        for family, kind, proto, _, there in _kernel.getaddrinfo(host, port, 0, _kernel.SOCK_STREAM):
            sock = self.socket(family, kind, proto)
            try:
                if timeout is not ...:
                    sock.settimeout(timeout)  # type: ignore[arg-type]
                if source_address:
                    sock.bind(source_address)
                sock.connect(there)
                errors.clear()
                return sock
            except OSError as error:
                errors.append(error)
                sock.close()
        if not all_errors:
            raise errors[-1] if errors else OSError("getaddrinfo returns an empty list")
        raise ExceptionGroup("create_connection failed", errors)

    def create_server(self, address: "tuple[str, int]", *, family: int = _kernel.AF_INET, backlog: "int | None" = None,
                      reuse_port: bool = False, dualstack_ipv6: bool = False) -> Socket:
        """A socket that listens at `address`; see `socket.create_server`."""
        if dualstack_ipv6 and family != _kernel.AF_INET6:
            raise ValueError("dualstack_ipv6 requires AF_INET6 family")
        sock = self.socket(family)
        try:
            sock.setsockopt(_kernel.SOL_SOCKET, _kernel.SO_REUSEADDR, 1)
            if reuse_port:
                sock.setsockopt(_kernel.SOL_SOCKET, _kernel.SO_REUSEPORT, 1)
            if family == _kernel.AF_INET6:
                sock.setsockopt(_kernel.IPPROTO_IPV6, _kernel.IPV6_V6ONLY, 0 if dualstack_ipv6 else 1)
            sock.bind(address)
            sock.listen(128 if backlog is None else backlog)
            return sock
        except BaseException:
            sock.close()
            raise

    def epoll(self) -> Epoll:
        """A new epoll set for sockets of this stack."""
        return Epoll(self)

    @property
    def asyncio(self) -> "Async":
        """The stack for asyncio: `create_connection`, `create_server`, `open_connection`, `start_server` under the
        names of event loops."""
        if self._async is None:
            # Programs without asyncio need not load it.
            from ._asyncio import Async
            self._async = Async(self)
        return self._async

    async def open_connection(self, host: "str | None" = None, port: "int | str | None" = None,
                              **options: Any) -> "tuple[StreamReader, StreamWriter]":
        """Connect in the event loop that runs; see `asyncio.open_connection`."""
        return await self.asyncio.open_connection(host, port, **options)

    async def start_server(self, client_connected_cb: Any, host: Any = None, port: "int | str | None" = None,
                           **options: Any) -> "Server":
        """Serve in the event loop that runs; see `asyncio.start_server`."""
        return await self.asyncio.start_server(client_connected_cb, host, port, **options)

    def stats(self) -> "dict[str, Any]":
        """Counters, table sizes and memory: what `millstream stat` shows."""
        found: "dict[str, Any]" = json.loads(self._stats())
        return found

    def connections(self) -> "list[dict[str, Any]]":
        """A dict for every listener, connection and TIME-WAIT entry: what `millstream ss` shows."""
        found: "list[dict[str, Any]]" = json.loads(self._connections())
        return found

    def sysctls(self, prefix: str = "") -> "list[dict[str, str]]":
        """The names below `prefix` of the run-time tree, with "access" ("r", "rw", "w"), "form" and "help"."""
        found: "list[dict[str, str]]" = json.loads(self._sysctls(prefix))
        return found

    def close(self, linger: float = 1.0) -> bool:
        """Close every socket and then, when what they left behind has reached the peers or `linger` seconds are over,
        the link. False if something was left even then."""
        sent = self._close(linger)
        if self._async is not None:
            self._async.closed()
        return sent

    def __enter__(self) -> "Stack":
        return self

    def __exit__(self, *why: object) -> None:
        self.close()
