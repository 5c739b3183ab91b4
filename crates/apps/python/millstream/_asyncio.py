"""A stack for asyncio: connections and servers under the names that event loops have for the kernel's."""

import asyncio
import asyncio.sslproto
import errno
import socket as _kernel
import ssl as _ssl
from typing import TYPE_CHECKING, Any, Awaitable, Callable, Sequence

from ._bridge import Bridge
from ._server import Factory, Server
from ._socket import Socket
from ._transport import Transport

if TYPE_CHECKING:
    from ._stack import Stack

#: Bytes of a line that a stream reader takes.
_LIMIT = 64 * 1024


def _tls(loop: asyncio.AbstractEventLoop, context: "_ssl.SSLContext | bool", protocol: asyncio.BaseProtocol,
         waiter: "asyncio.Future[None] | None", server_side: bool, server_hostname: "str | None",
         handshake: "float | None", shutdown: "float | None") -> asyncio.sslproto.SSLProtocol:
    # The stubs of Python know less than it takes.
    make: Any = asyncio.sslproto.SSLProtocol
    made: asyncio.sslproto.SSLProtocol = make(
        loop, protocol, _ssl.create_default_context() if context is True else context, waiter, server_side,
        server_hostname, ssl_handshake_timeout=handshake, ssl_shutdown_timeout=shutdown)
    return made


async def _create_connection(bridge: Bridge, factory: Factory, host: "str | None", port: "int | str | None", *,
                             ssl: "_ssl.SSLContext | bool | None" = None, family: int = 0,
                             local_addr: "tuple[str, int] | None" = None, server_hostname: "str | None" = None,
                             ssl_handshake_timeout: "float | None" = None,
                             ssl_shutdown_timeout: "float | None" = None,
                             sock: "Socket | None" = None) -> "tuple[asyncio.Transport, asyncio.BaseProtocol]":
    loop = bridge.loop
    bridge.enter()
    try:
        if sock is None:
            sock = await _connected(bridge, host, port, family, local_addr)
        sock.setblocking(False)
        protocol = factory()
        waiter = loop.create_future()
        try:
            if not ssl:
                transport: Any = Transport(bridge, sock, protocol, None, waiter)
            else:
                name = host if server_hostname is None else server_hostname
                secure = _tls(loop, ssl, protocol, waiter, False, name, ssl_handshake_timeout, ssl_shutdown_timeout)
                Transport(bridge, sock, secure)
                transport = secure._app_transport
        except BaseException:
            sock.close()
            raise
    finally:
        bridge.leave()
    try:
        await waiter
    except BaseException:
        transport.close()
        raise
    return transport, protocol


async def _connected(bridge: Bridge, host: "str | None", port: "int | str | None", family: int,
                     local_addr: "tuple[str, int] | None") -> Socket:
    found = await bridge.loop.getaddrinfo(host, port, family=family, type=_kernel.SOCK_STREAM)
    errors: "list[OSError]" = []
    for each, kind, proto, _, there in found:
        try:
            sock = bridge.stack.socket(each, kind, proto)
        except OSError as error:
            errors.append(error)
            continue
        try:
            sock.setblocking(False)
            if local_addr is not None:
                sock.bind(local_addr)
            await bridge.connect(sock, there)
            return sock
        except OSError as error:
            sock.close()
            errors.append(error)
        except BaseException:
            sock.close()
            raise
    if not errors:
        raise OSError(f"{host} has no address")
    raise errors[-1]


async def _create_server(bridge: Bridge, factory: Factory, host: "str | Sequence[str] | None",
                         port: "int | str | None", *, family: int = 0, backlog: int = 100,
                         ssl: "_ssl.SSLContext | None" = None, reuse_port: bool = False,
                         ssl_handshake_timeout: "float | None" = None, ssl_shutdown_timeout: "float | None" = None,
                         start_serving: bool = True) -> Server:
    loop = bridge.loop
    hosts: "Sequence[str | None]" = [host or None] if host is None or isinstance(host, str) else host
    found: "dict[tuple[Any, ...], None]" = {}
    for each in hosts:
        rows = await loop.getaddrinfo(each, port, family=family, type=_kernel.SOCK_STREAM, flags=_kernel.AI_PASSIVE)
        found.update({(row[0], row[4]): None for row in rows})
    socks: "list[Socket]" = []
    try:
        for kind, address in found:
            sock = bridge.stack.socket(kind)
            socks.append(sock)
            sock.setblocking(False)
            sock.setsockopt(_kernel.SOL_SOCKET, _kernel.SO_REUSEADDR, 1)
            if reuse_port:
                sock.setsockopt(_kernel.SOL_SOCKET, _kernel.SO_REUSEPORT, 1)
            if kind == _kernel.AF_INET6:
                sock.setsockopt(_kernel.IPPROTO_IPV6, _kernel.IPV6_V6ONLY, 1)
            sock.bind(address)
    except BaseException:
        for sock in socks:
            sock.close()
        raise

    def secure(protocol: asyncio.BaseProtocol) -> asyncio.BaseProtocol:
        if ssl is None:
            return protocol
        return _tls(loop, ssl, protocol, None, True, None, ssl_handshake_timeout, ssl_shutdown_timeout)

    server = Server(bridge, socks, factory, backlog, secure)
    if start_serving:
        await server.start_serving()
    return server


class Async:
    """A stack for asyncio: what event loops offer for the kernel's connections, under the same names. Its calls belong
    to the loop that runs."""

    def __init__(self, stack: "Stack") -> None:
        self._stack = stack
        self._bridges: "dict[asyncio.AbstractEventLoop, Bridge]" = {}

    def _bridge(self) -> Bridge:
        loop = asyncio.get_running_loop()
        for gone in [other for other in self._bridges if other.is_closed()]:
            del self._bridges[gone]
        if loop not in self._bridges:
            self._bridges[loop] = Bridge(self._stack, loop)
        return self._bridges[loop]

    def closed(self) -> None:
        """The stack is closed: its loops hear of it."""
        error = OSError(errno.EBADF, "the stack is closed")
        for loop, bridge in list(self._bridges.items()):
            if not loop.is_closed():
                loop.call_soon_threadsafe(bridge.gone, error)

    async def create_connection(self, protocol_factory: Factory, host: "str | None" = None,
                                port: "int | str | None" = None,
                                **options: Any) -> "tuple[asyncio.Transport, asyncio.BaseProtocol]":
        """Connect, and give the connection a protocol: `loop.create_connection` with its options `ssl`, `family`,
        `local_addr`, `server_hostname`, `ssl_handshake_timeout`, `ssl_shutdown_timeout` and `sock`, which is a
        connected socket of the stack."""
        return await _create_connection(self._bridge(), protocol_factory, host, port, **options)

    async def create_server(self, protocol_factory: Factory, host: "str | Sequence[str] | None" = None,
                            port: "int | str | None" = None, **options: Any) -> Server:
        """Listen, and give each connection a protocol: `loop.create_server` with its options `family`, `backlog`,
        `ssl`, `reuse_port`, `ssl_handshake_timeout`, `ssl_shutdown_timeout` and `start_serving`."""
        return await _create_server(self._bridge(), protocol_factory, host, port, **options)

    async def open_connection(self, host: "str | None" = None, port: "int | str | None" = None, *,
                              limit: int = _LIMIT,
                              **options: Any) -> "tuple[asyncio.StreamReader, asyncio.StreamWriter]":
        """Connect: a reader and a writer, as of `asyncio.open_connection`."""
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(limit=limit, loop=loop)
        protocol = asyncio.StreamReaderProtocol(reader, loop=loop)
        transport, _ = await self.create_connection(lambda: protocol, host, port, **options)
        return reader, asyncio.StreamWriter(transport, protocol, reader, loop)

    async def start_server(self, client_connected_cb: "Callable[..., Awaitable[None] | None]",
                           host: "str | Sequence[str] | None" = None, port: "int | str | None" = None, *,
                           limit: int = _LIMIT, **options: Any) -> Server:
        """Listen, and call `client_connected_cb` with a reader and a writer for each connection, as
        `asyncio.start_server`."""
        loop = asyncio.get_running_loop()

        def factory() -> asyncio.BaseProtocol:
            reader = asyncio.StreamReader(limit=limit, loop=loop)
            return asyncio.StreamReaderProtocol(reader, client_connected_cb, loop=loop)

        return await self.create_server(factory, host, port, **options)
