// node run.mjs PYODIDE WHEEL SITE PROGRAM [ARGUMENT...]: runs a Python program in Pyodide.
//
// PYODIDE is the folder of the npm package, WHEEL that of rushlight, SITE a folder of packages
// (pytest). The folder with this file is seen as /tests, and PROGRAM is a file in it. Exits with
// the program's status.
import fs from "node:fs";
import path from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

const [pyodide, wheel, site, program, ...rest] = process.argv.slice(2);
const { loadPyodide } = await import(pathToFileURL(path.resolve(pyodide, "pyodide.mjs")));

const began = performance.now();
const python = await loadPyodide({ indexURL: path.resolve(pyodide) + path.sep });
python.unpackArchive(new Uint8Array(fs.readFileSync(wheel)), "wheel");
const loaded = performance.now();

const mount = (folder, place) => {
  python.FS.mkdirTree(place);
  python.FS.mount(python.FS.filesystems.NODEFS, { root: path.resolve(folder) }, place);
};
mount(path.dirname(fileURLToPath(import.meta.url)), "/tests");
mount(site, "/site");
console.log(`Pyodide and the wheel: ${((loaded - began) / 1000).toFixed(2)} s`);
python.globals.set("arguments", python.toPy([`/tests/${program}`, ...rest]));
const status = await python.runPythonAsync(`
import runpy, sys
sys.argv = list(arguments)
sys.path[:0] = ["/tests", "/site"]
sys.dont_write_bytecode = True
status = 0
try:
    runpy.run_path(sys.argv[0], run_name="__main__")
except SystemExit as exit:
    status = exit.code if isinstance(exit.code, int) else 0 if exit.code is None else 1
status
`);
process.exit(status);
