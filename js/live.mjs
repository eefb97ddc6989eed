// How a run that goes on is told on its node: one line, and its newest previews.

import { element } from "./elements.mjs";
import { say } from "./words.mjs";

const GB = 1e9;

/** "3 s", "5 min", "2 h 05 min": as precise as a person wants to know it. */
export function duration(seconds) {
  if (seconds < 90) return say("seconds", { seconds: Math.max(1, Math.round(seconds)) });
  const minutes = Math.round(seconds / 60);
  if (minutes < 90) return say("minutes", { minutes });
  return say("hours", { hours: Math.floor(minutes / 60), minutes: String(minutes % 60).padStart(2, "0") });
}

/** What goes on, in one line: the phase, and for training step, pace and time left. */
export function liveLine(status) {
  if (status.state !== "running") return say(`run_${status.state}`);
  const parts = [say(status.phase ? `phase_${status.phase}` : "run_starting")];
  if (status.step && status.total) parts.push(say("run_step", { step: status.step, total: status.total }));
  const pace = status.seconds_per_step;
  if (pace > 0) parts.push(pace >= 1 ? say("run_pace", { seconds: pace.toFixed(1) }) : say("run_fast_pace", { steps: (1 / pace).toFixed(1) }));
  if (status.seconds_left > 0) parts.push(say("run_left", { time: duration(status.seconds_left) }));
  if (status.vram_gib) parts.push(memory(status));
  if (status.download) parts.push(download(status.download));
  return parts.join(" · ");
}

function memory({ vram_gib: used, budget_gib: most }) {
  const [unit, scale] = Math.max(used, most ?? 0) < 0.1 ? ["MiB", 1024] : ["GiB", 1];
  const size = (gib) => `${(gib * scale).toFixed(1)}`;
  return most ? say("run_memory_of", { used: size(used), most: size(most), unit }) : say("run_memory", { used: size(used), unit });
}

function download({ name, bytes, total }) {
  const done = ((bytes ?? 0) / GB).toFixed(1);
  return total ? say("run_download_of", { name, done, total: (total / GB).toFixed(1) }) : say("run_download", { name, done });
}

/** Whether a run with this status still goes on. */
export function goesOn(status) {
  return !["over", "failed", "interrupted"].includes(status.state);
}

/** The elements for a status; none for a run that is over, whose result stands on the node itself. */
export function liveParts(status, sampleUrl) {
  if (status.state === "over") return [];
  if (status.state === "failed") return [element("p", "headroom-problem", status.problem ?? say("run_failed"))];
  const share = status.step && status.total ? status.step / status.total : 0;
  const bar = element("div", "headroom-bar", element("div", ""));
  bar.firstChild.style.width = `${100 * share}%`;
  const note = goesOn(status) ? element("p", "headroom-note", say("queue_waits")) : null;
  return [element("p", "headroom-now", liveLine(status)), goesOn(status) ? bar : null, note, samples(status.run, status.samples ?? [], sampleUrl)].filter(Boolean);
}

/** Pictures of a run's previews, or null where there are none. */
export function samples(run, files, sampleUrl) {
  if (!files.length) return null;
  const pictures = files.map((file) => {
    const clip = /\.(mp4|webm)$/i.test(file);
    const shown = element(clip ? "video" : "img", "headroom-sample");
    shown.src = sampleUrl(run, file);
    shown.title = file;
    if (clip) Object.assign(shown, { muted: true, loop: true, autoplay: true });
    else shown.alt = file;
    return shown;
  });
  return element("div", "headroom-samples", ...pictures);
}

/** The node that a status speaks of, in the graph that is open: "3:2" is node 2 inside the subgraph of node 3. */
export function nodeOf(status, graph) {
  if (!graph || !status.graph || graph.id !== status.graph) return null;
  let inside = graph;
  let node = null;
  for (const id of String(status.node).split(":")) {
    node = inside?.getNodeById(/^\d+$/.test(id) ? Number(id) : id) ?? null;
    inside = node?.subgraph;
  }
  return node?.comfyClass === status.type ? node : null; // graphs that were never saved share an id
}
