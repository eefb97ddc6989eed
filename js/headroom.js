// Headroom in the browser: panels on its nodes, and pasting that leaves no text in a workflow.

import { api } from "../../scripts/api.js";
import { app } from "../../scripts/app.js";
import { attach, NODES } from "./node.mjs";
import { useWords, wordsFor } from "./words.mjs";

const locale = () => app.extensionManager?.setting?.get("Comfy.Locale") ?? navigator.language ?? "en";

const page = {
  locale,
  async send(kind, blob) {
    const query = new URLSearchParams({ kind, lang: locale().startsWith("zh") ? "zh" : "en" });
    const response = await api.fetchApi(`/headroom/pasted?${query}`, { method: "POST", body: blob });
    return response.json();
  },
  fileUrl(file, subfolder) {
    return api.apiURL(`/view?${new URLSearchParams({ filename: file, subfolder, type: "output" })}`);
  },
};

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
  },
  afterConfigureGraph() {
    for (const node of ourNodes(app.rootGraph ?? app.graph)) node.headroomRestore();
  },
});
