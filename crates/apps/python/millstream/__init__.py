"""Millstream: a user-level TCP stack in your own process.

    import millstream

    with millstream.open(link="tap:mst0", address="10.0.0.1/24") as stack:
        with stack.create_server(("", 7)) as server:
            connection, peer = server.accept()
            connection.sendall(connection.recv(1000))

Sockets are Python's in everything but where they come from; `Stack.open_connection` and
`Stack.start_server` are asyncio's. docs/PYTHON.md of the project is the guide.
"""

import atexit as _atexit
import os as _os
import weakref as _weakref

from ._millstream import Epoll, _forked
from ._socket import Socket
from ._stack import Stack, settings

__all__ = ["Epoll", "Socket", "Stack", "open", "settings"]

#: Stacks that were not closed: what they have to send goes out before the program ends.
_open_stacks: "_weakref.WeakSet[Stack]" = _weakref.WeakSet()

_os.register_at_fork(after_in_child=_forked)


def open(link: "str | None" = None, address: "str | None" = None, *, config: "str | None" = None,
         sysctl: "dict[str, object] | None" = None, **values: object) -> Stack:
    """Open a stack of one core.

    `link` says where packets come from and go to ("tap:mst0", "xdp:eth0", "nic:eth0", "shm:/tmp/a"), `address` which
    addresses are the stack's own ("10.0.0.1/24", several with commas), on links that do not share the kernel's. Any
    other setting is a keyword: see `settings()`. `sysctl` sets names of the run-time tree. Settings come from the file
    `config` (TOML), from MILLSTREAM_... variables and from here; the later wins.

    ValueError for a setting that cannot be, OSError if the link cannot be opened.
    """
    given = dict(values)
    if link is not None:
        given["link"] = link
    if address is not None:
        given["address"] = address
    stack = Stack._open(given, sysctl or {}, config)
    _open_stacks.add(stack)
    return stack


@_atexit.register
def _end() -> None:
    for stack in list(_open_stacks):
        try:
            stack.close()
        except OSError:
            # It belongs to another process, or its link is gone.
            pass
