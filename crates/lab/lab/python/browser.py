"""A headless Chromium, spoken to by its DevTools protocol: as much of it as reports need."""

import base64
import itertools
import json
import shutil
import subprocess
import tempfile
import time
import urllib.request
from pathlib import Path

import websocket

# Seconds that anything here may take.
TIMEOUT = 30


class Browser:
    """Runs until its `with` block ends."""

    def __init__(self, width=1000, height=800):
        self.size = (width, height)

    def __enter__(self):
        program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
        if program is None:
            raise RuntimeError("no Chromium; .ci/setup installs it")
        self.profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
                 "--hide-scrollbars", "--remote-debugging-port=0", f"--user-data-dir={self.profile.name}",
                 f"--window-size={self.size[0]},{self.size[1]}", "about:blank"]
        self.process = subprocess.Popen([program, *flags], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            return Page(self.address())
        except BaseException:
            self.__exit__()
            raise

    def address(self):
        """Of the one page, once the browser has written down where it listens."""
        port = Path(self.profile.name, "DevToolsActivePort")
        deadline = time.monotonic() + TIMEOUT
        while time.monotonic() < deadline and self.process.poll() is None:
            if port.exists() and port.read_text().strip():
                number = port.read_text().split()[0]
                pages = json.load(urllib.request.urlopen(f"http://127.0.0.1:{number}/json/list", timeout=TIMEOUT))
                found = [page["webSocketDebuggerUrl"] for page in pages if page["type"] == "page"]
                if found:
                    return found[0]
            time.sleep(0.05)
        raise RuntimeError("the browser did not start")

    def __exit__(self, *_):
        self.process.terminate()
        try:
            self.process.wait(TIMEOUT)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.profile.cleanup()


class Page:
    """What it shows, and everything that went wrong in it (`problems`)."""

    def __init__(self, address):
        self.socket = websocket.create_connection(address, timeout=TIMEOUT, suppress_origin=True)
        self.numbers = itertools.count(1)
        self.problems = []
        self.loaded = False
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method, **parameters):
        number = next(self.numbers)
        self.socket.send(json.dumps({"id": number, "method": method, "params": parameters}))
        while True:
            message = json.loads(self.socket.recv())
            if message.get("id") == number:
                if "error" in message:
                    raise RuntimeError(f"{method}: {message['error']}")
                return message["result"]
            self.note(message)

    def note(self, event):
        method, told = event.get("method"), event.get("params", {})
        if method == "Page.loadEventFired":
            self.loaded = True
        elif method == "Runtime.exceptionThrown":
            details = told["exceptionDetails"]
            self.problems.append(details.get("exception", {}).get("description") or details["text"])
        elif method == "Runtime.consoleAPICalled" and told["type"] in ("error", "warning", "assert"):
            self.problems.append(" ".join(str(word.get("value", word)) for word in told["args"]))
        elif method == "Log.entryAdded" and told["entry"]["level"] in ("error", "warning"):
            self.problems.append(told["entry"]["text"])

    def open(self, path):
        self.loaded = False
        self.call("Page.navigate", url=Path(path).resolve().as_uri())
        while not self.loaded:
            self.note(json.loads(self.socket.recv()))

    def tell(self, script):
        """The value of an expression; an exception in it is one here."""
        result = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise RuntimeError(f"{script}: {result['exceptionDetails']}")
        return result["result"].get("value")

    def place(self, selector, part=(0.5, 0.5)):
        """Where on the screen a part of an element is, after it was scrolled there."""
        script = f"""(() => {{ const found = document.querySelector({json.dumps(selector)});
            found.scrollIntoView({{ block: "center", behavior: "instant" }});
            const box = found.getBoundingClientRect(); return [box.x, box.y, box.width, box.height]; }})()"""
        x, y, width, height = self.tell(script)
        return x + width * part[0], y + height * part[1]

    def mouse(self, kind, at, **more):
        self.call("Input.dispatchMouseEvent", type=kind, x=at[0], y=at[1], **more)

    def click(self, selector, count=1):
        at = self.place(selector)
        for nth in range(1, count + 1):
            self.mouse("mousePressed", at, button="left", clickCount=nth)
            self.mouse("mouseReleased", at, button="left", clickCount=nth)

    def drag(self, selector, start, end):
        start, end = self.place(selector, start), self.place(selector, end)
        self.mouse("mousePressed", start, button="left", clickCount=1)
        for step in range(1, 6):
            at = [a + (b - a) * step / 5 for a, b in zip(start, end)]
            self.mouse("mouseMoved", at, button="left", buttons=1)
        self.mouse("mouseReleased", end, button="left", clickCount=1)

    def key(self, key, text=None):
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, **({"text": text} if text else {}))
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key)

    def type(self, text):
        self.call("Input.insertText", text=text)

    def screenshot(self, x, y, width, height):
        clip = {"x": x, "y": y, "width": width, "height": height, "scale": 1}
        shot = self.call("Page.captureScreenshot", format="png", clip=clip, captureBeyondViewport=True)
        return base64.b64decode(shot["data"])
