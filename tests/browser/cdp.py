"""A headless Chromium, driven over its debugging protocol: no package beyond what Jupyter brings."""

import base64
import itertools
import json
import pathlib
import shutil
import subprocess
import time
import urllib.request

import websocket

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")


def find(named):
    """The browser to use: the one named, else a usual name on the search path, else None."""
    return named or next(filter(None, map(shutil.which, NAMES)), None)


def until(what, holds, limit):
    """Waits for something to be true; returns it."""
    end = time.monotonic() + limit
    while time.monotonic() < end:
        found = holds()
        if found:
            return found
        time.sleep(0.1)
    raise AssertionError(f"{what}: not within {limit} s")


class Browser:
    """One browser with one page."""

    def __init__(self, program, folder, width=1200, height=900):
        folder = pathlib.Path(folder)
        # Without a sandbox: the page is our own, and containers often forbid one.
        self.process = subprocess.Popen(
            [program, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
             "--remote-debugging-port=0", "--remote-allow-origins=*", f"--window-size={width},{height}",
             f"--user-data-dir={folder}", "about:blank"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        port = until("the browser's port", lambda: self._port(folder), 60)
        pages = json.load(urllib.request.urlopen(f"http://127.0.0.1:{port}/json/list"))
        address = next(page["webSocketDebuggerUrl"] for page in pages if page["type"] == "page")
        self.socket = websocket.create_connection(address, timeout=120, suppress_origin=True)
        self.numbers = itertools.count(1)
        self.command("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    @staticmethod
    def _port(folder):
        file = folder / "DevToolsActivePort"
        return file.read_text().split()[0] if file.exists() and file.read_text().strip() else None

    def command(self, method, **params):
        number = next(self.numbers)
        self.socket.send(json.dumps({"id": number, "method": method, "params": params}))
        while True:
            answer = json.loads(self.socket.recv())
            if answer.get("id") == number:
                assert "error" not in answer, answer
                return answer["result"]

    def open(self, address):
        self.command("Page.navigate", url=address)

    def script(self, expression):
        """The value of a JavaScript expression in the page; a promise is awaited."""
        answer = self.command("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def click(self, selector):
        """A press of the mouse in the middle of the first element that fits."""
        place = f"(() => {{ const box = document.querySelector({json.dumps(selector)})?.getBoundingClientRect();" \
                "return box && box.width ? [box.x + box.width / 2, box.y + box.height / 2] : null })()"
        x, y = until(f"{selector} on the page", lambda: self.script(place), 60)
        for kind in ("mousePressed", "mouseReleased"):
            self.command("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def screenshot(self, path, scale=0.75):
        size = self.command("Page.getLayoutMetrics")["cssVisualViewport"]
        clip = {"x": 0, "y": 0, "width": size["clientWidth"], "height": size["clientHeight"], "scale": scale}
        data = self.command("Page.captureScreenshot", format="png", clip=clip)["data"]
        pathlib.Path(path).write_bytes(base64.b64decode(data))

    def close(self):
        self.socket.close()
        self.process.terminate()
        self.process.wait(30)
