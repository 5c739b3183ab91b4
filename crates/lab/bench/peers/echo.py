"""Sends back what arrives at port 7, with asyncio's streams."""

import asyncio


async def echo(reader, writer):
    while payload := await reader.read(65536):
        writer.write(payload)
        await writer.drain()
    writer.close()


async def main():
    server = await asyncio.start_server(echo, "0.0.0.0", 7)
    async with server:
        await server.serve_forever()


asyncio.run(main())
