"""Checks the site that `make docs` made: links, and in Chromium the search and a phone's width.

    python tools/check_site.py build/docs

Without Chromium it checks the links alone, and says so.
"""

import functools
import http.server
import shutil
import subprocess
import sys
import tempfile
import threading
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag

SEARCHED = ("cross_entropy", "conv2d", "DataLoader", "autograd")
NARROW = (
    "index.html",
    "guide/first_steps.html",
    "guide/autograd.html",
    "api/rushlight.nn.functional/conv2d.html",
    "api/rushlight/conv2d.html",
    "performance.html",
    "differences.html",
    "gallery/index.html",
    "gallery/vae.html",
)
PHONE = 390  # CSS pixels


class _Page(HTMLParser):
    def __init__(self):
        super().__init__()
        self.links, self.anchors = [], set()

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        self.anchors |= {found[key] for key in ("id", "name") if found.get(key)}
        for key in ("href", "src"):
            if found.get(key):
                self.links.append(found[key])


def broken_links(site):
    """(page, link) of all links within the site that lead nowhere."""
    pages = {}
    for path in site.rglob("*.html"):
        pages[path.resolve()] = page = _Page()
        page.feed(path.read_text())
    for path, page in sorted(pages.items()):
        for link in page.links:
            target, anchor = urldefrag(link)
            if ":" in target.partition("/")[0] or target.startswith("//"):
                continue
            target = target.partition("?")[0]
            found = (path.parent / unquote(target)).resolve() if target else path
            if found.is_dir():
                found = found / "index.html"
            if not found.exists():
                yield path.relative_to(site.resolve()), link
            elif anchor and found in pages and unquote(anchor) not in pages[found].anchors:
                yield path.relative_to(site.resolve()), link


# A page that looks at others in a frame of a phone's width and puts what it finds into its body.
LOOKER = """<!doctype html><title>looks</title><body><script>
const wait = (ms) => new Promise((done) => setTimeout(done, ms));
async function open(address) {
  const frame = document.createElement("iframe");
  frame.style = "width: WIDTHpx; height: 800px; border: 0";
  const loaded = new Promise((done) => frame.onload = done);
  frame.src = address;
  document.body.append(frame);
  await loaded;
  return frame;
}
async function look() {
  const found = [];
  for (const address of PAGES) {
    const frame = await open(address);
    await wait(200);
    found.push("width " + address + " " + frame.contentDocument.documentElement.scrollWidth);
    frame.remove();
  }
  for (const word of WORDS) {
    const frame = await open("search.html?q=" + word);
    let links = [];
    for (let i = 0; i < 100 && !links.length; i++) {
      await wait(100);
      links = [...frame.contentDocument.querySelectorAll("#search-results li a")];
    }
    await wait(1500);
    links = [...frame.contentDocument.querySelectorAll("#search-results li a")];
    found.push("search " + word + " " + links.length + " " +
               links.slice(0, 20).map((a) => a.getAttribute("href")).join(" "));
    frame.remove();
  }
  document.body.innerHTML = "<pre>" + found.join("\\n") + "\\nend</pre>";
}
look();
</script>"""


def look(site, browser):
    """What Chromium finds, a line each."""
    text = LOOKER.replace("WIDTH", str(PHONE)).replace("PAGES", str(list(NARROW)))
    text = text.replace("WORDS", str(list(SEARCHED)))
    handler = functools.partial(_Quiet, directory=str(site), looker=text.encode())
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        with tempfile.TemporaryDirectory() as profile:
            command = [browser, "--headless", "--no-sandbox", "--disable-gpu"]
            command += [f"--user-data-dir={profile}", "--virtual-time-budget=120000", "--dump-dom"]
            command += [f"http://127.0.0.1:{server.server_port}/looker.html"]
            ran = subprocess.run(command, capture_output=True, text=True, timeout=300)
    finally:
        server.shutdown()
    body = ran.stdout.partition("<pre>")[2].partition("</pre>")[0]
    if not body.rstrip().endswith("end"):
        sys.exit(f"the browser did not come to an end: {ran.stdout[-500:]} {ran.stderr[-500:]}")
    return body.splitlines()[:-1]


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def __init__(self, *args, looker, **options):
        self.looker = looker
        super().__init__(*args, **options)

    def do_GET(self):
        if self.path != "/looker.html":
            return super().do_GET()
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.end_headers()
        self.wfile.write(self.looker)

    def log_message(self, *args):
        return None


def main():
    site = Path(sys.argv[1])
    failures = [f"{page}: {link} leads nowhere" for page, link in broken_links(site)]
    print(f"{sum(1 for _ in site.rglob('*.html'))} pages, {len(failures)} broken links")
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        print("there is no Chromium here: search and width are not checked")
    else:
        for line in look(site, browser):
            kind, what, number, *rest = line.split()
            print(line[:120])
            if kind == "width" and int(number) > PHONE:
                failures.append(f"{what} is {number} pixels wide on a phone of {PHONE}")
            if kind == "search" and not any(what.lower() in link.lower() for link in rest):
                failures.append(f"search for {what} finds {rest}")
    sys.exit("\n".join(failures[:40]) or 0)


main()
