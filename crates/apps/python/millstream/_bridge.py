"""A stack in an asyncio event loop.

The loop knows one descriptor, that of an epoll set of the stack (`Epoll.fileno`). When it can be read the stack is
turned and the set's sockets are served, on the loop's own thread: no other thread takes part, and what callbacks write
leaves together with the next turn.
"""

import asyncio
import contextlib
import select
from typing import TYPE_CHECKING, Any, Callable

from ._millstream import Epoll
from ._socket import Socket

if TYPE_CHECKING:
    from ._stack import Stack

IN, OUT = select.EPOLLIN, select.EPOLLOUT
#: Reported though nothing asked.
BAD = select.EPOLLERR | select.EPOLLHUP
#: Events of one turn: other callbacks of the loop get their turn, too.
_EVENTS = 256

_Handler = Callable[[int], None]


class Bridge:
    """A stack in one event loop: begins with the first socket and ends with the last."""

    def __init__(self, stack: "Stack", loop: asyncio.AbstractEventLoop) -> None:
        self.stack = stack
        self.loop = loop
        self.epoll: "Epoll | None" = None
        #: The kernel's descriptor that the loop knows.
        self._number: "int | None" = None
        self._handlers: "dict[int, tuple[int, _Handler]]" = {}
        self._users = 0

    def enter(self) -> None:
        """A socket more."""
        self._users += 1
        if self.epoll is None:
            self.epoll = self.stack.epoll()
            self._number = self.epoll.fileno()
            self.loop.add_reader(self._number, self._ready)

    def leave(self) -> None:
        """A socket less."""
        self._users -= 1
        if self._users == 0 and self.epoll is not None:
            epoll, self.epoll = self.epoll, None
            number, self._number = self._number, None
            if number is not None and not self.loop.is_closed():
                self.loop.remove_reader(number)
            epoll.close()

    def watch(self, sock: Socket, events: int, handler: _Handler) -> None:
        """Calls `handler` with what of `events` the socket is ready for, until it is told otherwise; 0 for nothing."""
        number = sock.fileno()
        epoll = self.epoll
        if epoll is None or number == -1:
            return
        before, _ = self._handlers.get(number, (0, None))
        if events:
            self._handlers[number] = (events, handler)
            if not before:
                epoll.register(number, events)
            elif before != events:
                epoll.modify(number, events)
        elif before:
            del self._handlers[number]
            # Where nothing is waited for, errors are not either. A stack that is closed has no sets.
            with contextlib.suppress(OSError):
                epoll.unregister(number)

    def _ready(self) -> None:
        epoll = self.epoll
        if epoll is None:
            return
        try:
            found = epoll.poll(0, _EVENTS)
        except (OSError, ValueError) as error:
            self.gone(error)
            return
        for number, events in found:
            entry = self._handlers.get(number)
            # A handler before it may have closed the socket.
            if entry is not None:
                entry[1](events)

    def gone(self, error: Exception) -> None:
        """The stack is closed, or its link is gone: nothing wakes the loop any more, and sockets fail."""
        if self.epoll is None or self._number is None:
            return
        self.loop.remove_reader(self._number)
        self._number = None
        for _, handler in list(self._handlers.values()):
            handler(BAD)
        self.loop.call_exception_handler({"message": f"a stack is gone: {error}", "exception": error})

    async def connect(self, sock: Socket, address: "tuple[Any, ...]") -> None:
        """Connects a socket that does not block."""
        with contextlib.suppress(BlockingIOError):
            sock.connect(address)
            return
        done = self.loop.create_future()

        def ready(_: int) -> None:
            if not done.done():
                done.set_result(None)

        self.watch(sock, OUT, ready)
        try:
            await done
        finally:
            self.watch(sock, 0, ready)
        sock.connect(address)
