"""The other end is the kernel, over a tap device: bytes are the same both ways, and Python's own libraries run."""

import http.client
import http.server
import socket
import threading
import unittest

from bed import KERNELS, KERNELS6, OURS, OURS6, beside, echo_once, example, exchange, payload, tap


class Quiet(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    body = payload(400_000)

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(self.body)))
        self.end_headers()
        self.wfile.write(self.body)

    def log_message(self, *_: object) -> None:
        pass


class Kernel(unittest.TestCase):
    def setUp(self) -> None:
        self.stack = self.enterContext(tap())

    def test_payload_both_ways(self) -> None:
        for family, ours, kernels in ((socket.AF_INET, OURS, KERNELS), (socket.AF_INET6, OURS6, KERNELS6)):
            for count in (1, 70_000, 5_000_000):
                data = payload(count)
                with self.subTest(ours=ours, count=count):
                    with self.stack.create_server((ours, 0), family=family) as server:
                        served = beside(echo_once, server)
                        with socket.create_connection(server.getsockname()[:2], timeout=20) as client:
                            self.assertTrue(exchange(client, data) == data)
                        self.assertEqual(served.result(20), count)
                    with socket.create_server((kernels, 0), family=family) as server:
                        served = beside(echo_once, server)
                        with self.stack.create_connection(server.getsockname()[:2], timeout=20) as client:
                            self.assertTrue(exchange(client, data) == data)
                        self.assertEqual(served.result(20), count)

    def test_pythons_http_client(self) -> None:
        server = http.server.ThreadingHTTPServer((KERNELS, 0), Quiet)
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            client = http.client.HTTPConnection(KERNELS, server.server_port)
            client.sock = self.stack.create_connection((KERNELS, server.server_port), timeout=20)
            for _ in range(3):
                client.request("GET", "/")
                self.assertTrue(client.getresponse().read() == Quiet.body)
            client.close()
        finally:
            server.shutdown()
            thread.join()
            server.server_close()

    def test_a_request_handler_of_python_serves_the_kernels_clients(self) -> None:
        def serve(server) -> None:
            connection, peer = server.accept()
            Quiet(connection, peer, None)
            connection.close()

        with self.stack.create_server((OURS, 0)) as server:
            served = beside(serve, server)
            client = http.client.HTTPConnection(*server.getsockname(), timeout=20)
            for _ in range(3):
                client.request("GET", "/")
                self.assertTrue(client.getresponse().read() == Quiet.body)
            client.close()
            served.result(20)

    def test_names_are_looked_up(self) -> None:
        with self.stack.socket() as sock:
            sock.settimeout(1)
            with self.assertRaises(socket.gaierror):
                sock.connect(("no-such-host.invalid", 1))


class Examples(unittest.TestCase):
    def test_echo(self) -> None:
        with example("echo.py"):
            for host in (OURS, OURS6):
                for count in (1, 100_000, 3_000_000):
                    data = payload(count)
                    with socket.create_connection((host, 7), timeout=20) as client:
                        self.assertTrue(exchange(client, data) == data)


if __name__ == "__main__":
    unittest.main()
