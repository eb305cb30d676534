"""Opens the live pages in headless Chromium, runs every example, and checks what they showed.

    python tools/check_live.py build/live
"""

import functools
import http.server
import json
import shutil
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

PHONE = 390  # CSS pixels
TIME_LIMIT = 300  # seconds


class _Server(http.server.SimpleHTTPRequestHandler):
    """Files of the folder; what is posted ends the test."""

    report: dict = {}
    reported = threading.Event()

    extensions_map = {**http.server.SimpleHTTPRequestHandler.extensions_map,
                      ".mjs": "text/javascript", ".wasm": "application/wasm"}  # fmt: skip

    def do_POST(self):
        _Server.report = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(200)
        self.end_headers()
        _Server.reported.set()

    def log_message(self, *args):
        pass


def look(folder: Path, browser: str) -> dict:
    """What the page reports of itself; an empty dict if it does not in time."""
    handler = functools.partial(_Server, directory=str(folder))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory() as profile:
        command = [browser, "--headless", "--no-sandbox", "--disable-gpu",
                   f"--user-data-dir={profile}", f"--window-size={PHONE},800",
                   f"http://127.0.0.1:{server.server_port}/index.html?test"]  # fmt: skip
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            _Server.reported.wait(TIME_LIMIT)
        finally:
            process.terminate()
            process.wait(30)
            server.shutdown()
    return _Server.report


def troubles(report: dict, examples: dict):
    """What is wrong, a line each."""
    if not report or "failed" in report:
        yield f"the page did not report: {report.get('failed', f'nothing in {TIME_LIMIT} s')}"
        return
    for page, wanted in examples.items():
        results = report["pages"].get(page, [])
        if len(results) != len(wanted):
            yield f"{page}: {len(results)} of {len(wanted)} examples ran"
        for number, (result, example) in enumerate(zip(results, wanted)):
            if result["error"]:
                yield f"{page}, example {number}: {result['error']}"
            if "live.plot" in example["code"] and not result["plots"]:
                yield f"{page}, example {number}: no plot"
            if "print(" in example["code"] and not result["text"].strip():
                yield f"{page}, example {number}: nothing was printed"
    if report["edited"] != "42\n":
        yield f"an edited program printed {report['edited']!r}, not 42"
    if report["width"] > max(PHONE, 500):  # less than 500 Chromium's window has not
        yield f"the page is {report['width']} pixels wide in a window of {PHONE}"


def main(folder: str) -> None:
    browser = shutil.which("chromium") or shutil.which("chromium-browser")
    if not browser:
        raise SystemExit("check_live.py: needs Chromium")
    report = look(Path(folder), browser)
    examples = json.loads((Path(folder) / "examples.json").read_text())
    found = list(troubles(report, examples))
    for trouble in found:
        print(trouble)
    if found:
        raise SystemExit(1)
    seconds = sum(r["seconds"] for results in report["pages"].values() for r in results)
    count = sum(map(len, examples.values()))
    ready = report["ready"]
    print(f"{count} examples ran in Chromium: ready after {ready:.1f} s, then {seconds:.1f} s")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    main(sys.argv[1])
