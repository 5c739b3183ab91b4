"""HTTP in asyncio by libraries that people use, the kernel at the other end of a tap device: aiohttp serves on our
stack, h11 asks from it, and an example of ours."""

import asyncio
import contextlib
import io
import pathlib
import tempfile
import unittest

import aiohttp
import h11
from aiohttp import web

from bed import KERNELS, KERNELS6, OURS, OURS6, example, payload, tap

BODY = payload(2_000_000)


async def body(request: web.Request) -> web.Response:
    return web.Response(body=BODY[:int(request.query.get("payload", len(BODY)))])


async def mirror(request: web.Request) -> web.StreamResponse:
    """Sends back what it gets, in chunks."""
    response = web.StreamResponse()
    response.enable_chunked_encoding()
    await response.prepare(request)
    async for piece in request.content.iter_chunked(30_000):
        await response.write(piece)
    return response


@contextlib.asynccontextmanager
async def runner(folder: str):
    app = web.Application(client_max_size=10**8)
    app.add_routes([web.get("/", body), web.post("/mirror", mirror), web.static("/files", folder)])
    made = web.AppRunner(app)
    await made.setup()
    try:
        yield made
    finally:
        await made.cleanup()


async def ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, target: str, data: bytes = b"",
              connection: "h11.Connection | None" = None) -> "tuple[h11.Connection, bytes]":
    """One request by h11; the connection for the next, and the body."""
    connection = connection or h11.Connection(h11.CLIENT)
    headers = [("Host", "test"), ("Content-Length", str(len(data)))]
    request = h11.Request(method="POST" if data else "GET", target=target, headers=headers)
    for event in (request, h11.Data(data=data), h11.EndOfMessage()):
        writer.write(connection.send(event) or b"")
    await writer.drain()
    got = bytearray()
    while True:
        event = connection.next_event()
        if event is h11.NEED_DATA:
            connection.receive_data(await reader.read(65_536))
        elif isinstance(event, h11.Data):
            got += event.data
        elif isinstance(event, h11.EndOfMessage):
            connection.start_next_cycle()
            return connection, bytes(got)


class Http(unittest.IsolatedAsyncioTestCase):
    def setUp(self) -> None:
        self.folder = self.enterContext(tempfile.TemporaryDirectory())
        pathlib.Path(self.folder, "file").write_bytes(BODY)
        self.stack = self.enterContext(tap())

    async def test_aiohttp_serves_clients_of_the_kernel(self) -> None:
        async with runner(self.folder) as served, contextlib.AsyncExitStack() as end:
            for host in (OURS, OURS6):
                server = await self.stack.asyncio.create_server(served.server, host, 80)
                end.callback(server.close)
            client = await end.enter_async_context(aiohttp.ClientSession())

            async def get(path: str, host: str = OURS) -> bytes:
                async with client.get(f"http://{host}{path}") as response:
                    self.assertEqual(response.status, 200)
                    return await response.read()

            self.assertTrue(await get("/") == BODY)
            self.assertTrue(await get("/", f"[{OURS6}]") == BODY)
            self.assertTrue(await get("/files/file") == BODY)
            many = await asyncio.gather(*(get(f"/?payload={count}") for count in range(0, 100_000, 2_500)))
            self.assertTrue(all(got == BODY[:len(got)] and len(got) == index * 2_500 for index, got in enumerate(many)))
            async with client.post(f"http://{OURS}/mirror", data=io.BytesIO(BODY)) as response:
                self.assertTrue(await response.read() == BODY)

    async def test_h11_asks_servers_of_the_kernel(self) -> None:
        async with runner(self.folder) as served:
            for host in (KERNELS, KERNELS6):
                site = web.TCPSite(served, host, 8080)
                await site.start()
                reader, writer = await self.stack.open_connection(host, 8080)
                connection, got = await ask(reader, writer, "/")
                self.assertTrue(got == BODY)
                # Kept alive.
                connection, got = await ask(reader, writer, "/files/file", connection=connection)
                self.assertTrue(got == BODY)
                connection, got = await ask(reader, writer, "/mirror", BODY, connection)
                self.assertTrue(got == BODY)
                writer.close()
                await writer.wait_closed()

    async def test_both_ends_in_one_loop(self) -> None:
        """The same program serves on our stack and asks by the kernel's, and the other way round, at once."""
        async with runner(self.folder) as served, contextlib.AsyncExitStack() as end:
            server = await self.stack.asyncio.create_server(served.server, OURS, 80)
            end.callback(server.close)
            await web.TCPSite(served, KERNELS, 8080).start()

            async def one(index: int) -> bool:
                if index % 2:
                    ends = await self.stack.open_connection(KERNELS, 8080)
                else:
                    ends = await asyncio.open_connection(OURS, 80)
                _, got = await ask(*ends, f"/?payload={index * 5_000}")
                ends[1].close()
                return got == BODY[:index * 5_000]

            self.assertTrue(all(await asyncio.gather(*(one(index) for index in range(30)))))


class Example(unittest.TestCase):
    def test_a_server_of_files(self) -> None:
        folder = self.enterContext(tempfile.TemporaryDirectory())
        pathlib.Path(folder, "file").write_bytes(BODY)
        pathlib.Path(folder, "index.html").write_bytes(b"<p>hello</p>")

        async def program() -> None:
            async with aiohttp.ClientSession() as client:
                for path, status, wanted in (("/", 200, b"<p>hello</p>"), ("/file", 200, BODY),
                                             ("/none", 404, None), ("/..%2f..%2fetc/passwd", 404, None)):
                    async with client.get(f"http://{OURS}{path}") as response:
                        self.assertEqual(response.status, status, path)
                        got = await response.read()
                        if wanted is not None:
                            self.assertTrue(got == wanted, path)
                async with client.post(f"http://{OURS}/", data=b"x") as response:
                    self.assertEqual(response.status, 405)

        with example("http_asyncio.py", f"root={folder}"):
            asyncio.run(program())


if __name__ == "__main__":
    unittest.main()
