// Python with rushlight, in a thread of its own: a page stays alive while a program runs, and can
// stop it by ending the thread. Messages to it: {id, page, code}. From it: {state}, {id, text},
// {id, html}, and {id, done, error, seconds}.
import { loadPyodide } from "./pyodide/pyodide.mjs";

let current = null;
const send = (message) => self.postMessage({ id: current, ...message });

async function start() {
  const began = performance.now();
  const listed = await (await fetch("files.json")).json();
  const wheel = fetch(listed.wheel).then((found) => found.arrayBuffer());
  const python = await loadPyodide({ indexURL: new URL("./pyodide/", self.location).href });
  python.setStdout({ batched: (text) => send({ text: text + "\n" }) });
  python.setStderr({ batched: (text) => send({ text: text + "\n" }) });
  python.unpackArchive(await wheel, "wheel");
  for (const name of listed.files)
    python.FS.writeFile("/home/pyodide/" + name,
                        new Uint8Array(await (await fetch(name)).arrayBuffer()));
  python.registerJsModule("live_page", { show: (html) => send({ html }) });
  python.runPython("import live\nlive.first_import()");
  self.postMessage({ state: "ready", seconds: (performance.now() - began) / 1000 });
  return python;
}

const started = start();
started.catch((error) => self.postMessage({ state: "failed", text: String(error) }));

let turn = Promise.resolve();
self.onmessage = ({ data }) => {
  turn = turn.then(async () => {
    const python = await started;
    current = data.id;
    const began = performance.now();
    const run = python.globals.get("live").run;
    const error = run(data.page, data.code);
    run.destroy();
    send({ done: true, error, seconds: (performance.now() - began) / 1000 });
  });
};
