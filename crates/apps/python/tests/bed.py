"""What the tests stand on: two stacks joined by memory, which needs no privilege, and a tap device to the kernel in a
network namespace of the test's own."""

import contextlib
import functools
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading
import unittest
from concurrent.futures import Future

import millstream

#: The ends of a pair.
ONE, TWO = "10.9.0.1", "10.9.0.2"
ONE6, TWO6 = "fd09::1", "fd09::2"
#: Our end and the kernel's of the tap device.
OURS, KERNELS = "10.77.0.1", "10.77.0.2"
OURS6, KERNELS6 = "fd77::1", "fd77::2"

#: The program that starts the tests says so: the network namespace is theirs alone.
OWN_NETWORK = "MILLSTREAM_TEST_NETWORK" in os.environ


def payload(count: int, seed: int = 1) -> bytes:
    """So many bytes that do not repeat soon."""
    out, word = bytearray(), seed
    while len(out) < count:
        word = (word * 6364136223846793005 + 1442695040888963407) & (2**64 - 1)
        out += word.to_bytes(8, "big")
    return bytes(out[:count])


def run(*words: str) -> None:
    subprocess.run(words, check=True, capture_output=True)


if OWN_NETWORK:
    run("ip", "link", "set", "lo", "up")


@contextlib.contextmanager
def pair(**settings):
    """Two stacks on one wire of shared memory."""
    with tempfile.TemporaryDirectory() as folder:
        link = f"shm:{folder}/wire"
        with millstream.open(link, f"{ONE}/24,{ONE6}/64", **settings) as one:
            with millstream.open(link, f"{TWO}/24,{TWO6}/64", **settings) as two:
                yield one, two


@contextlib.contextmanager
def device():
    """A tap device, the kernel at its other end."""
    if not OWN_NETWORK:
        raise unittest.SkipTest("no network namespace of our own: run `cargo xtask ci python`")
    run("ip", "tuntap", "add", "mst0", "mode", "tap", "vnet_hdr")
    try:
        run("ip", "addr", "add", f"{KERNELS}/24", "dev", "mst0")
        run("ip", "addr", "add", f"{KERNELS6}/64", "dev", "mst0", "nodad")
        run("ip", "link", "set", "mst0", "up")
        yield
    finally:
        run("ip", "link", "del", "mst0")


@contextlib.contextmanager
def tap():
    """A stack on such a device."""
    with device(), millstream.open("tap:mst0", f"{OURS}/24,{OURS6}/64") as stack:
        yield stack


@contextlib.contextmanager
def example(name: str, *words: str):
    """An example of the project, running on a tap device; Ctrl-C ends it."""
    program = pathlib.Path(__file__).parents[4] / "examples/python" / name
    settings = ("link=tap:mst0", f"address={OURS}/24,{OURS6}/64")
    with device():
        command = (sys.executable, str(program), *settings, *words)
        # The program that started the tests may ignore Ctrl-C, as a shell does for what runs in its background; this must not.
        hears = functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, preexec_fn=hears) as process:
            try:
                assert process.stdout is not None
                if not process.stdout.readline().startswith("ready"):
                    raise AssertionError(f"{name} did not begin")
                yield
            finally:
                process.send_signal(signal.SIGINT)
                try:
                    process.wait(20)
                except subprocess.TimeoutExpired:
                    process.kill()
                    raise
        if process.returncode != 0:
            raise AssertionError(f"{name} ended with {process.returncode}")


def beside(call, *arguments) -> "Future":
    """Runs a call on a thread of its own; its result, or what it raised, is in the future."""
    future: "Future" = Future()

    def body() -> None:
        try:
            future.set_result(call(*arguments))
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=body, daemon=True).start()
    return future


def echo_once(server) -> int:
    """Accepts one connection and gives back what comes; how much it was."""
    connection, _ = server.accept()
    total = 0
    with connection:
        while some := connection.recv(100_000):
            connection.sendall(some)
            total += len(some)
    return total


def exchange(sock, data: bytes) -> bytes:
    """Sends from one thread and receives on another until the end; what came back."""
    def send() -> None:
        sock.sendall(data)
        sock.shutdown(1)

    sending = beside(send)
    back = bytearray()
    while some := sock.recv(100_000):
        back += some
    sending.result(30)
    return bytes(back)
