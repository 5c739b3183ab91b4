#!/usr/bin/env python3
"""Serves the files of a directory over HTTP/1.1, in asyncio: a task for each connection.

    python http_asyncio.py root=/srv/www link=tap:mst0,host=10.0.0.2/24 address=10.0.0.1/24

Then: curl http://10.0.0.1/
"""

import asyncio
import mimetypes
import pathlib
import sys
import urllib.parse
from typing import Any

import millstream

PORT = 80
#: Seconds that a client may take for its next request.
TIMEOUT = 60
BLOCK = 256 * 1024


def found(root: pathlib.Path, target: str) -> "pathlib.Path | None":
    """The file that a request names, if it lies below the root."""
    name = urllib.parse.unquote(target.partition("?")[0]).lstrip("/")
    path = (root / (name or "index.html")).resolve()
    return path if path.is_relative_to(root) and path.is_file() else None


async def answer(root: pathlib.Path, head: str, writer: asyncio.StreamWriter) -> bool:
    """Answers one request; may another follow?"""
    request, *lines = head.split("\r\n")
    headers = {name.strip().lower(): value.strip().lower() for name, _, value in (line.partition(":") for line in lines)}
    method, _, rest = request.partition(" ")
    target, _, version = rest.partition(" ")
    # The body of a request is not read, so nothing can follow it.
    body = headers.get("content-length", "0") != "0" or "transfer-encoding" in headers
    goes_on = version == "HTTP/1.1" and headers.get("connection") != "close" and not body
    path = found(root, target) if method in ("GET", "HEAD") else None
    status = "200 OK" if path else "404 Not Found" if method in ("GET", "HEAD") else "405 Method Not Allowed"
    kind = mimetypes.guess_type(path.name)[0] if path else None
    size = path.stat().st_size if path else 0
    writer.write((f"HTTP/1.1 {status}\r\nContent-Type: {kind or 'application/payload-stream'}\r\n"
                  f"Content-Length: {size}\r\nConnection: {'keep-alive' if goes_on else 'close'}\r\n\r\n").encode())
    if path and method == "GET":
        with path.open("rb") as file:
            while block := file.read(BLOCK):
                writer.write(block)
                await writer.drain()
    await writer.drain()
    return goes_on


async def main() -> None:
    settings: "dict[str, Any]" = dict(word.split("=", 1) for word in sys.argv[1:])
    root = pathlib.Path(settings.pop("root", ".")).resolve()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), TIMEOUT)
                if not await answer(root, head.decode("latin-1"), writer):
                    break
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, ConnectionError, TimeoutError):
            pass
        finally:
            writer.close()

    with millstream.open(**settings) as stack:
        async with await stack.start_server(connected, None, PORT) as server:
            print(f"ready: {root} on port {PORT}", flush=True)
            await server.serve_forever()


if __name__ == "__main__":
    try:
        asyncio.run(main())
    except KeyboardInterrupt:
        pass
