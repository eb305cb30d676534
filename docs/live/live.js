// The page: examples of one document at a time, an editor for each, and what they print and draw.
// With ?test it runs everything and sends what became of it to the server that it came from.
const pages = await (await fetch("examples.json")).json();
const chosen = document.getElementById("pages");
const shown = document.getElementById("examples");
const state = document.getElementById("state");
const stop = document.getElementById("stop");
const running = new Map();  // by id: the example's parts, and who waits for it
let worker, ready, next = 0, done = new Set();

function startWorker() {
  done = new Set();
  worker = new Worker("worker.js", { type: "module" });
  ready = new Promise((resolve, reject) => {
    worker.onmessage = ({ data }) => {
      if (data.state === "ready") {
        state.textContent = `ready (${data.seconds.toFixed(1)} s)`;
        resolve(data.seconds);
      } else if (data.state === "failed") {
        state.textContent = data.text;
        reject(new Error(data.text));
      } else receive(data);
    };
  });
  ready.catch(() => {});
}

function receive(data) {
  const one = running.get(data.id);
  if (!one) return;
  if (data.html) one.output.insertAdjacentHTML("beforeend", data.html);
  if (data.text) print(one.output, data.text);
  if (!data.done) return;
  if (data.error) print(one.output, data.error, "wrong");
  one.time.textContent = `${data.seconds.toFixed(2)} s`;
  running.delete(data.id);
  stop.disabled = running.size === 0;
  one.finish({ error: data.error ?? null, seconds: data.seconds });
}

function print(output, text, kind = "") {
  let last = output.lastElementChild;
  if (!last || last.tagName !== "PRE" || last.className !== kind) {
    last = document.createElement("pre");
    last.className = kind;
    output.append(last);
  }
  last.textContent += text;
}

// Runs an example, and before it those of the page that it builds on and that have not run.
async function run(page, number) {
  for (let i = 0; i < number; ++i)
    if (!done.has(`${page}/${i}`)) await runOne(page, i);
  return runOne(page, number);
}

function runOne(page, number) {
  const section = shown.children[number];
  const part = (name) => section.querySelector(name);
  const one = { output: part(".output"), time: part(".time") };
  one.output.replaceChildren();
  one.time.textContent = "running";
  done.add(`${page}/${number}`);
  const id = next++;
  const result = new Promise((finish) => one.finish = finish);
  running.set(id, one);
  stop.disabled = false;
  worker.postMessage({ id, page, code: part("textarea").value });
  return result;
}

function open(page) {
  shown.replaceChildren();
  pages[page].forEach((example, number) => {
    const section = document.getElementById("example").content.cloneNode(true).firstElementChild;
    const editor = section.querySelector("textarea");
    section.querySelector(".text").textContent = example.text;
    const fill = () => {
      editor.value = example.code;
      editor.rows = example.code.split("\n").length;
    };
    fill();
    section.querySelector(".run").onclick = () => run(page, number);
    section.querySelector(".reset").onclick = fill;
    editor.onkeydown = (event) => {
      if (event.key === "Enter" && event.ctrlKey) run(page, number);
      if (event.key !== "Tab" || event.shiftKey) return;
      event.preventDefault();
      editor.setRangeText("    ", editor.selectionStart, editor.selectionEnd, "end");
    };
    shown.append(section);
  });
}

async function runAll(page) {
  const results = [];
  for (let i = 0; i < pages[page].length; ++i) results.push(await runOne(page, i));
  return results;
}

for (const name of Object.keys(pages)) chosen.add(new Option(name));
chosen.onchange = () => open(chosen.value);
document.getElementById("all").onclick = () => runAll(chosen.value);
stop.onclick = () => {
  worker.terminate();
  for (const one of running.values()) print(one.output, "stopped\n", "wrong");
  running.clear();
  stop.disabled = true;
  state.textContent = "loading";
  startWorker();
};
startWorker();
open(chosen.value);

async function test() {
  const report = { pages: {}, width: 0 };
  try {
    report.ready = await ready;
    for (const name of Object.keys(pages)) {
      open(name);
      const results = await runAll(name);
      report.pages[name] = results.map((result, i) => ({
        ...result, text: shown.children[i].querySelector(".output").textContent,
        plots: shown.children[i].querySelectorAll(".output svg").length }));
      report.width = Math.max(report.width, document.documentElement.scrollWidth);
    }
    // An edited program runs as it was edited.
    open(Object.keys(pages)[0]);
    shown.children[0].querySelector("textarea").value = "print(6 * 7)";
    shown.children[0].querySelector(".run").click();
    while (running.size) await new Promise((resolve) => setTimeout(resolve, 20));
    report.edited = shown.children[0].querySelector(".output").textContent;
  } catch (error) {
    report.failed = String(error);
  }
  await fetch("report", { method: "POST", body: JSON.stringify(report) });
}
if (new URLSearchParams(location.search).has("test")) test();
