// Runs the search of the built site as a browser does, and prints the first page of results of each question.
// node search.mjs SITE < questions.json
import { readFileSync } from "node:fs";
import { runInContext, createContext } from "node:vm";

const folder = `${process.argv[2]}/search/`;
const worker = createContext({
  console: { log() {}, error: console.error },
  postMessage(message) {
    if (message.results) found = message.results;
  },
  importScripts(...names) {
    for (const name of names) runInContext(readFileSync(folder + name, "utf8"), worker);
  },
  XMLHttpRequest: class {
    addEventListener(_event, loaded) {
      this.loaded = loaded;
    }
    open(_method, name) {
      this.responseText = readFileSync(folder + name, "utf8");
    }
    send() {
      this.loaded();
    }
  },
});
let found = [];
worker.importScripts("worker.js");
worker.onmessage({ data: { init: true } });
const answers = JSON.parse(readFileSync(0, "utf8")).map((query) => {
  found = [];
  worker.onmessage({ data: { query } });
  return found.map((each) => each.location);
});
process.stdout.write(JSON.stringify(answers));
