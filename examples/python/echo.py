#!/usr/bin/env python3
"""An echo server in the style of epoll: one thread, any number of connections.

    python echo.py link=tap:mst0,host=10.0.0.2/24 address=10.0.0.1/24        then: nc 10.0.0.1 7
"""

import collections
import select
import socket
import sys
from typing import Any

import millstream

PORT = 7
ROOM = 65_536


def serve(stack: millstream.Stack) -> None:
    server = stack.create_server(("", PORT), family=socket.AF_INET6, dualstack_ipv6=True)
    server.setblocking(False)
    epoll = stack.epoll()
    epoll.register(server, select.EPOLLIN)
    peers: "dict[int, millstream.Socket]" = {}
    #: What a connection has received and not sent back yet.
    pending: "dict[int, bytes]" = collections.defaultdict(bytes)
    print(f"ready: echo on port {PORT}", flush=True)
    while True:
        for number, _ in epoll.poll():
            if number == server.fileno():
                peer, _ = server.accept()
                peer.setblocking(False)
                peers[peer.fileno()] = peer
                epoll.register(peer, select.EPOLLIN)
                continue
            if not echo(peers[number], number, epoll, pending):
                pending.pop(number, None)
                peers.pop(number).close()


def echo(peer: millstream.Socket, number: int, epoll: millstream.Epoll, pending: "dict[int, bytes]") -> bool:
    """Sends back what came; False at the end of the connection."""
    try:
        payload = pending[number] or peer.recv(ROOM)
        if not payload:
            return False
        pending[number] = payload
        pending[number] = payload[peer.send(payload):]
    except BlockingIOError:
        pass
    except ConnectionError:
        return False
    # While something is left, room is what is waited for.
    epoll.modify(peer, select.EPOLLOUT if pending[number] else select.EPOLLIN)
    return True


def main() -> None:
    settings: "dict[str, Any]" = dict(word.split("=", 1) for word in sys.argv[1:])
    with millstream.open(**settings) as stack:
        try:
            serve(stack)
        except KeyboardInterrupt:
            pass


if __name__ == "__main__":
    main()
