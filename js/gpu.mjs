// Live readings on the budget node: what its card has now and what the budget then is, while somebody can see it.

import { offerCards } from "./cards.mjs";
import { element } from "./elements.mjs";

const EVERY_MS = 3000;
const LOOK_MS = 500; // how soon a changed widget shows
const ASKED = ["gpu", "vram", "unit", "reserve_gib", "mode"];

/** The question that a node's widgets make; of the card alone where an input comes over a wire, so that nobody knows it yet. */
export function question(node) {
  const linked = (name) => node.inputs?.some((input) => input.widget?.name === name && input.link !== null && input.link !== undefined);
  const value = (name) => node.widgets?.find((each) => each.name === name)?.value;
  const asked = ASKED.some(linked) ? { gpu: linked("gpu") ? "auto" : value("gpu") } : Object.fromEntries(ASKED.map((name) => [name, value(name)]));
  return `/gpus?${new URLSearchParams(Object.entries(asked).filter(([, each]) => each !== undefined))}`;
}

/** Keep the card's line, at the top of the node's panel, true. `page.call` asks the server. */
export function followCard(node, page) {
  const line = element("div", "headroom-card");
  node.widgets.find((each) => each.name === "headroom_panel").element.prepend(line);
  let seen = false;
  let asking = false;
  let said = { question: null, at: -Infinity };
  const watcher = new IntersectionObserver((entries) => (seen = entries.at(-1).isIntersecting));
  watcher.observe(line);

  async function look() {
    if (!seen || document.hidden || asking) return;
    const now = question(node);
    if (now === said.question && performance.now() - said.at < EVERY_MS) return;
    asking = true;
    const answer = await page.call(now);
    asking = false;
    said = { question: now, at: performance.now() };
    if (answer.gpus) offerCards(node, answer.gpus);
    line.replaceChildren(...cardLines(answer.node ?? answer));
    line.title = answer.node?.used_by?.join("\n") ?? "";
  }

  const timer = setInterval(look, LOOK_MS);
  const removed = node.onRemoved;
  node.onRemoved = function () {
    clearInterval(timer);
    watcher.disconnect();
    removed?.apply(this, arguments);
  };
}

function cardLines({ now, budget, warning, problem }) {
  return [
    now && element("p", "", now),
    budget && element("p", "headroom-card-budget", budget),
    warning && element("p", "headroom-note", warning),
    problem && element("p", "headroom-problem", problem),
  ].filter(Boolean);
}
