// What the page adds to one of our nodes: buttons to paste with, and a place to read the result.

import { button, element } from "./elements.mjs";
import { dropArea } from "./dropping.mjs";
import { goesOn, liveParts } from "./live.mjs";
import { panelParts } from "./panel.mjs";
import { askForText } from "./paste.mjs";
import { remember } from "./restoring.mjs";
import { inLanguage } from "./verdict.mjs";
import { choose } from "./widgets.mjs";
import { say } from "./words.mjs";

/**
 * Node -> what can be pasted on it (kind: the widget that holds the name), the widget that gets what is dropped, its text
 * before a run, and sizes in pixels: of the node, of the text, and the least of all that is added (`LEAST_HEIGHT`).
 */
export const NODES = {
  HeadroomLoadJob: { paste: { job: "job_file" }, empty: "empty_job", size: [480, 460], reading: 280 },
  HeadroomOOMClassifier: { paste: { log: "log", job: "job_file" }, empty: "empty_classifier", size: [560, 800], reading: 520 },
  HeadroomShowDiagnosis: { paste: {}, empty: "empty_diagnosis", size: [560, 640], reading: 480 },
  HeadroomSaveJob: { paste: {}, empty: "empty_saved", size: [480, 460], reading: 340 },
  HeadroomModel: { paste: {}, empty: "empty_model", size: [400, 0], reading: 76, least: 92 },
  HeadroomDataset: { paste: {}, drop: "folder", empty: "empty_dataset", size: [400, 0], reading: 150, least: 230 },
  HeadroomTraining: { paste: {}, empty: "empty_training", size: [400, 0], reading: 76, least: 92 },
  HeadroomSampling: { paste: {}, empty: "empty_sampling", size: [400, 0], reading: 76, least: 92 },
  HeadroomMemoryBudget: { paste: {}, empty: "empty_budget", size: [400, 0], reading: 44, least: 150 },
  HeadroomLoadCheck: { paste: {}, empty: "empty_check", size: [440, 460], reading: 240 },
  HeadroomTrain: { paste: {}, empty: "empty_train", size: [480, 680], reading: 300 },
  HeadroomPreviewSample: { paste: {}, empty: "empty_preview", size: [480, 620], reading: 280 },
};

const LEAST_HEIGHT = 240;
const MARGINS = 20; // that the classic page leaves above and below a widget
const NO_ID = "00000000-0000-0000-0000-000000000000"; // of every graph that was never saved
const shown = new Map(); // graph and node -> its panels, so that switching workflows loses none

/** Add the widget to a node that was just made. `page`: {locale, send, fileUrl, sampleUrl} as headroom.js provides them. */
export function attach(node, page) {
  const { paste, drop, empty, size, reading, least = LEAST_HEIGHT } = NODES[node.comfyClass];
  const body = element("div", "headroom-body", element("p", "headroom-empty", say(empty)));
  body.style.flexBasis = `${reading}px`; // its height where the page lets a widget grow, as early Nodes 2.0 do
  const status = element("p", "headroom-status");
  const buttons = Object.entries(paste).map(([kind, widget]) =>
    button(say(`paste_${kind}`), () => pasteInto(node, kind, widget, status, page)),
  );
  const live = element("div", "headroom-live");
  const root = element("div", "headroom-panel", buttons.length ? element("div", "headroom-actions", ...buttons, status) : null, drop ? dropArea(node, drop, page.upload, (parts) => body.replaceChildren(...parts)) : null, live, body);
  root.style.minHeight = `${least}px`;
  body.style.minHeight = `${Math.min(reading, 160)}px`;
  for (const name of ["wheel", "pointerdown", "contextmenu"]) body.addEventListener(name, (event) => event.stopPropagation());

  const widget = node.addDOMWidget("headroom_panel", "HEADROOM_PANEL", root, {
    serialize: false,
    hideOnZoom: false,
    getMinHeight: () => least + MARGINS,
  });
  widget.serialize = false;

  const executed = node.onExecuted;
  node.onExecuted = function (output) {
    executed?.apply(this, arguments);
    if (output?.headroom) show(output.headroom);
  };

  /** A run of this node goes on, or is over: what the server told last. */
  node.headroomLive = (told) => {
    live.replaceChildren(...liveParts(told, page.sampleUrl));
    if (goesOn(told)) body.replaceChildren(); // what stands there is of an earlier run, or says to begin one
    if (told.panels) show(told.panels);
  };

  function show(panels) {
    status.textContent = "";
    live.replaceChildren();
    if (keyOf(node)) shown.set(keyOf(node), panels);
    const parts = panelParts(inLanguage(panels, page.locale()), page);
    body.replaceChildren(...parts.filter(Boolean));
    body.scrollTop = 0;
  }

  node.headroomRestore = () => {
    const panels = shown.get(keyOf(node));
    if (panels) show(panels);
  };
  node.setSize([Math.max(node.size[0], size[0]), Math.max(node.size[1], size[1])]);
}

function keyOf(node) {
  const graph = node.graph?.id;
  return graph && graph !== NO_ID ? `${graph}/${node.id}` : null;
}

async function pasteInto(node, kind, widgetName, status, page) {
  const answer = await askForText(kind, page.send);
  if (!answer) return;
  choose(node, widgetName, answer.name);
  if (answer.text !== null) remember(answer.text, answer.masked_lines);
  const count = Object.keys(answer.masked_lines).length;
  const told = [say(`${kind}_kept`, { lines: answer.lines }), count ? say("lines_masked", { count }) : "", say("press_run")];
  status.textContent = told.filter(Boolean).join(" ");
}
