// Headroom in the browser: panels on its nodes, and pasting that leaves no text in a workflow.

import { api } from "../../scripts/api.js";
import { app } from "../../scripts/app.js";
import { followCard } from "./gpu.mjs";
import { nodeOf } from "./live.mjs";
import { attach, NODES } from "./node.mjs";
import { caller } from "./server.mjs";
import { useWords, wordsFor } from "./words.mjs";

const locale = () => app.extensionManager?.setting?.get("Comfy.Locale") ?? navigator.language ?? "en";

const page = {
  locale,
  call: caller(api.fetchApi.bind(api), locale),
  async send(kind, blob) {
    const query = new URLSearchParams({ kind, lang: locale().startsWith("zh") ? "zh" : "en" });
    const response = await api.fetchApi(`/headroom/pasted?${query}`, { method: "POST", body: blob });
    return response.json();
  },
  async upload(form) {
    const query = new URLSearchParams({ lang: locale().startsWith("zh") ? "zh" : "en" });
    const response = await api.fetchApi(`/headroom/datasets?${query}`, { method: "POST", body: form });
    return response.json();
  },
  fileUrl(file, subfolder) {
    return api.apiURL(`/view?${new URLSearchParams({ filename: file, subfolder, type: "output" })}`);
  },
  sampleUrl(run, file) {
    return api.apiURL(`/headroom/runs/sample?${new URLSearchParams({ run, file })}`);
  },
};

function tell(status) {
  nodeOf(status, app.rootGraph ?? app.graph)?.headroomLive?.(status);
}

async function catchUp() {
  const response = await api.fetchApi("/headroom/runs");
  for (const status of await response.json()) tell(status);
}

// Here and not in setup: a page that is opened while a run goes on hears of it before it is set up.
api.addEventListener("headroom.run", ({ detail }) => tell(detail));
api.addEventListener("reconnected", catchUp);

function ourNodes(graph, found = []) {
  for (const node of graph?.nodes ?? []) {
    if (node.headroomRestore) found.push(node);
    if (node.subgraph) ourNodes(node.subgraph, found);
  }
  return found;
}

app.registerExtension({
  name: "headroom.panels",
  async setup() {
    const style = document.createElement("link");
    style.rel = "stylesheet";
    style.href = new URL("./headroom.css", import.meta.url).href;
    document.head.append(style);
    const response = await api.fetchApi("/i18n");
    useWords(wordsFor(await response.json(), locale()));
  },
  nodeCreated(node) {
    if (node.comfyClass in NODES) attach(node, page);
    if (node.comfyClass === "HeadroomMemoryBudget") followCard(node, page);
  },
  async afterConfigureGraph() {
    const ours = ourNodes(app.rootGraph ?? app.graph);
    for (const node of ours) node.headroomRestore();
    if (ours.length) await catchUp();
  },
});
