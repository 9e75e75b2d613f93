"""Drives headless Chromium over its DevTools protocol, on a pipe, without any other library.

    with Browser() as browser:
        browser.open("http://127.0.0.1:8080/")
        browser.wait("document.querySelector('h1') !== null")
        browser.press("Tab")
        browser.screenshot("page.png")

Every wait has a limit; what the page writes to the console as an error is in `complaints`.
"""

import base64
import json
import os
import select
import shutil
import signal
import subprocess
import tempfile
import time

KEYS = {
    "Tab": ("Tab", 9, None),
    "Enter": ("Enter", 13, "\r"),
    "ArrowLeft": ("ArrowLeft", 37, None),
    "ArrowRight": ("ArrowRight", 39, None),
    "Home": ("Home", 36, None),
    "End": ("End", 35, None),
    "ArrowDown": ("ArrowDown", 40, None),
    "+": ("Equal", 187, "+"),
    "0": ("Digit0", 48, "0"),
    " ": ("Space", 32, " "),
}


class BrowserError(Exception):
    """The browser does not do what it should."""


class Browser:
    def __init__(self, program=None):
        program = program or shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
        if program is None:
            raise BrowserError("there is no chromium: apt-get install chromium")
        self.folder = tempfile.mkdtemp(prefix="adjoin-browser-")
        to_browser, self._out = os.pipe()
        self._in, from_browser = os.pipe()

        def descriptors():  # Chromium reads from descriptor 3 and writes to 4
            first, second = os.dup(to_browser), os.dup(from_browser)
            os.dup2(first, 3)
            os.dup2(second, 4)

        flags = ["--headless=new", "--remote-debugging-pipe", f"--user-data-dir={self.folder}", "--no-first-run",
                 "--disable-gpu", "--disable-extensions", "--disable-background-networking", "--disable-sync",
                 "--disable-component-update", "--ignore-certificate-errors", "--force-color-profile=srgb", "--disable-dev-shm-usage"]
        if os.geteuid() == 0:
            flags.append("--no-sandbox")
        self._process = subprocess.Popen([program, *flags, "about:blank"], preexec_fn=descriptors, close_fds=False,
                                         env={**os.environ, "HOME": self.folder},
                                         stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                         stderr=subprocess.DEVNULL, start_new_session=True)
        os.close(to_browser)
        os.close(from_browser)
        self._bytes = b""
        self._number = 0
        self._session = None
        self.complaints = []
        self.dialogs = []
        try:
            self._attach()
        except BaseException:
            self.close()
            raise

    def _attach(self):
        pages = self._call("Target.getTargets")["targetInfos"]
        page = next(target for target in pages if target["type"] == "page")
        self._session = self._call("Target.attachToTarget", targetId=page["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self._call(f"{domain}.enable")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        os.close(self._out)
        os.close(self._in)
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self._process.wait(timeout=20)
        for _ in range(20):
            shutil.rmtree(self.folder, ignore_errors=True)
            if not os.path.exists(self.folder):
                break
            time.sleep(0.1)

    def _message(self, limit):
        while b"\0" not in self._bytes:
            ready, _, _ = select.select([self._in], [], [], max(0, limit - time.monotonic()))
            if not ready:
                raise BrowserError("the browser does not answer")
            got = os.read(self._in, 1 << 20)
            if not got:
                raise BrowserError("the browser has ended")
            self._bytes += got
        text, self._bytes = self._bytes.split(b"\0", 1)
        return json.loads(text)

    def _call(self, method, **parameters):
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self._out, data):]
        limit = time.monotonic() + 180
        while True:
            answer = self._message(limit)
            if answer.get("id") == message["id"]:
                if "error" in answer:
                    raise BrowserError(f"{method}: {answer['error']['message']}")
                return answer["result"]
            self._note(answer)

    def _note(self, event):
        method, parameters = event.get("method"), event.get("params", {})
        if method == "Log.entryAdded" and parameters["entry"]["level"] == "error":
            self.complaints.append(parameters["entry"]["text"] + " " + parameters["entry"].get("url", ""))
        elif method == "Runtime.exceptionThrown":
            details = parameters["exceptionDetails"]
            self.complaints.append(details.get("exception", {}).get("description", details["text"]))
        elif method == "Runtime.consoleAPICalled" and parameters["type"] == "error":
            self.complaints.append(" ".join(str(each.get("value", each.get("description"))) for each in
                                            parameters["args"]))
        elif method == "Page.javascriptDialogOpening":
            self.dialogs.append(parameters["message"])
            self._number += 1
            os.write(self._out, json.dumps({"id": self._number, "method": "Page.handleJavaScriptDialog",
                                            "params": {"accept": True}, "sessionId": self._session}).encode() + b"\0")

    def go_to(self, address):
        """Does not wait until it is there."""
        self._call("Page.navigate", url=address)

    def clear_cache(self):
        self._call("Network.clearBrowserCache")

    def open(self, address):
        self.go_to(address)
        self.wait("document.readyState === 'complete'")

    def evaluate(self, script):
        """Returns the value of an expression, which may be a promise."""
        result = self._call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            details = result["exceptionDetails"]
            raise BrowserError(details.get("exception", {}).get("description", details["text"]))
        return result["result"].get("value")

    def wait(self, condition, seconds=300):
        """Waits until the expression is true."""
        limit = time.monotonic() + seconds
        while True:
            try:
                if self.evaluate(condition):
                    return
            except BrowserError as error:
                if "navigat" not in str(error) and "context" not in str(error):
                    raise
            if time.monotonic() > limit:
                raise BrowserError(f"not within {seconds} s: {condition}")
            time.sleep(0.1)

    def press(self, key, shift=False):
        code, number, text = KEYS[key]
        event = {"key": key, "code": code, "windowsVirtualKeyCode": number, "modifiers": 8 if shift else 0}
        self._call("Input.dispatchKeyEvent", type="keyDown", **event, **({"text": text} if text else {}))
        self._call("Input.dispatchKeyEvent", type="keyUp", **event)

    def type(self, text):
        self._call("Input.insertText", text=text)

    def middle_of(self, selector, across=0.5):
        """A point of the first such element, in pixels of the window; `across`: of its width."""
        return self.evaluate(f"""(() => {{ const each = document.querySelector({json.dumps(selector)});
            each.scrollIntoView({{block: "center", behavior: "instant"}});
            const box = each.getBoundingClientRect();
            return [box.left + {across} * box.width, box.top + box.height / 2]; }})()""")

    def point(self, at):
        """Moves the pointer there."""
        self._mouse("mouseMoved", at)

    def click(self, at, times=1):
        for count in range(1, times + 1):
            self._mouse("mousePressed", at, button="left", buttons=1, clickCount=count)
            self._mouse("mouseReleased", at, button="left", clickCount=count)

    def drag(self, begin, end):
        self._mouse("mousePressed", begin, button="left", buttons=1, clickCount=1)
        self._mouse("mouseMoved", end, button="left", buttons=1)
        self._mouse("mouseReleased", end, button="left", clickCount=1)

    def wheel(self, at, down, ctrl=False):
        self._mouse("mouseWheel", at, deltaX=0, deltaY=down, modifiers=2 if ctrl else 0)

    def _mouse(self, kind, at, **more):
        self._call("Input.dispatchMouseEvent", type=kind, x=at[0], y=at[1], **more)

    def show_as(self, width, height, dark):
        self._call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self._call("Emulation.setEmulatedMedia",
                   features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])

    def screenshot(self, path, whole=False):
        data = self._call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)["data"]
        with open(path, "wb") as file:
            file.write(base64.b64decode(data))

    def bypass_policy(self, enabled):
        """Content security policies do not count for what a test adds."""
        self._call("Page.setBypassCSP", enabled=enabled)
