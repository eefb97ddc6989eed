// What stands on a node after a run: the diagnosis, a loaded job, or a saved one.

import { button, copy, element } from "./elements.mjs";
import { samples } from "./live.mjs";
import { restored } from "./restoring.mjs";
import { badge, diffLine, tone } from "./verdict.mjs";
import { say } from "./words.mjs";

const RENDERERS = { diagnosis: diagnosisParts, job: jobParts, saved: savedParts, run: runParts, built: builtParts };

/**
 * The elements for a panel's data. `page.fileUrl(file, subfolder)` gives the address of a file in the output folder,
 * `page.sampleUrl(run, file)` that of a preview.
 */
export function panelParts(panel, page) {
  return RENDERERS[panel.kind](panel, page);
}

function section(title, ...children) {
  return element("section", "headroom-section", element("h4", "", title), ...children);
}

function folded(title, ...children) {
  return element("details", "headroom-section", element("summary", "", title), ...children);
}

function builtParts(panel) {
  const tone = panel.notes.length ? "change" : "good";
  return [element("div", `headroom-verdict headroom-${tone}`, ...paragraphs(panel.said)), ...paragraphs(panel.notes)];
}

function diagnosisParts(panel) {
  const { headings } = panel;
  const parts = [verdict(panel), panel.yaml ? jobCopy(panel) : null];
  if (panel.escalation) {
    parts.push(section(headings.escalation, copyButton(say("copy"), () => panel.escalation), element("p", "headroom-quote", panel.escalation)));
  }
  if (panel.changes.length) {
    parts.push(section(headings.changes, panel.yaml ? null : element("p", "headroom-note", say("without_job")), ...panel.changes.map((change) => changeCard(change, headings))));
  }
  if (panel.diff.length) parts.push(folded(say("diff"), diff(panel.diff)));
  if (panel.warnings.length) parts.push(section(headings.warnings, ...paragraphs(panel.warnings)));
  if (panel.evidence.length) {
    const lines = folded(headings.evidence, ...panel.evidence.map((line) => evidence(line, headings)));
    lines.open = !panel.changes.length; // without a change to read, the lines are what there is to read
    parts.push(lines);
  }
  if (panel.notes.length) parts.push(folded(headings.notes, ...paragraphs(panel.notes)));
  return parts;
}

function verdict(panel) {
  const facts = [...panel.labels, say("sure", { percent: Math.round(panel.confidence * 100) })];
  return element(
    "div",
    `headroom-verdict headroom-${tone(panel)}`,
    element("span", "headroom-badge", say(badge(panel))),
    element("p", "headroom-summary", panel.summary),
    element("p", "headroom-advice", panel.what_to_do),
    element("p", "headroom-facts", facts.join(" · ")),
  );
}

function changeCard(change, headings) {
  const [path, values] = [change.line.slice(0, change.path.length), change.line.slice(change.path.length)];
  const row = (key, text) => element("div", "headroom-row", element("span", "headroom-key", headings[key]), element("span", "", text));
  return element(
    "div",
    "headroom-change-card",
    element("div", "headroom-path", path, element("b", "", values)),
    row("where", change.where),
    row("why", change.reason),
    row("price", change.price),
  );
}

function diff(lines) {
  const shown = lines.map((line) =>
    diffLine(line) === "place" ? element("div", "headroom-place", "⋯") : element("div", `headroom-line headroom-${diffLine(line)}`, line),
  );
  return element("div", "headroom-diff", ...shown);
}

function evidence(line, headings) {
  return element(
    "div",
    "headroom-evidence",
    element("div", "headroom-facts", `${headings.line} ${line.line}: ${line.means}`),
    element("code", "", line.text),
  );
}

function paragraphs(texts) {
  return texts.map((text) => element("p", "", text));
}

function copyButton(label, text, className) {
  const act = async (pressed) => {
    pressed.textContent = say((await copy(text())) ? "copied" : "copy_failed");
    setTimeout(() => (pressed.textContent = label), 2000);
  };
  return button(label, act, className);
}

function jobCopy(panel, ...more) {
  const { text, count } = restored(panel.yaml);
  const note = panel.masked ? say(count ? "masked_restored" : "masked_note") : "";
  const label = say(panel.yaml.trimStart().startsWith("{") ? "copy_json" : "copy_yaml");
  return element("div", "headroom-actions headroom-below", copyButton(label, () => text, "headroom-main"), ...more, element("span", "headroom-note", note));
}

function jobParts(panel) {
  const rows = panel.facts.map(([path, value, written]) => {
    const cell = element("td", written ? "" : "headroom-default", value);
    if (!written) cell.title = say("not_written");
    return element("tr", "", element("td", "headroom-key", path), cell);
  });
  return [
    section(say("memory_settings"), element("table", "headroom-facts-table", element("tbody", "", ...rows))),
    panel.masked ? element("p", "headroom-note", say("masked_note")) : null,
    folded(say("whole_job"), element("pre", "headroom-text", panel.text)),
  ];
}

function factsTable(rows) {
  const cells = rows.map(([name, value]) => element("tr", "", element("td", "headroom-key", name), element("td", "", value)));
  return element("table", "headroom-facts-table", element("tbody", "", ...cells));
}

const RUN_TONES = { finished: "good", failed: "stop", cancelled: "unsure" };

function runParts(panel, { sampleUrl }) {
  const head = element("tr", "", ...panel.peaks_head.map((name) => element("td", "headroom-key", name)));
  const rows = panel.peaks.map((row) => element("tr", "", ...row.map((cell) => element("td", "", cell))));
  return [
    element(
      "div",
      `headroom-verdict headroom-${RUN_TONES[panel.outcome]}`,
      element("p", "headroom-summary", panel.title),
      ...paragraphs(panel.told),
      panel.lines.length ? element("code", "headroom-text", panel.lines.join("\n")) : null,
    ),
    samples(panel.run, panel.samples, sampleUrl),
    element("div", "headroom-section", factsTable(panel.facts)),
    rows.length ? element("table", "headroom-section headroom-facts-table", element("tbody", "", head, ...rows)) : null,
    panel.changes.length ? section(panel.changes_title, ...paragraphs(panel.changes)) : null,
    ...panel.warnings.map((text) => element("p", "headroom-note", text)),
  ];
}

function savedParts(panel, { fileUrl }) {
  const link = element("a", "headroom-button", say("download"));
  link.href = fileUrl(panel.file, panel.subfolder);
  link.download = panel.file;
  const differs = panel.diff.length ? section(say("diff"), diff(panel.diff)) : element("p", "headroom-note", say("no_difference"));
  return [
    element("div", "headroom-verdict headroom-good", element("p", "headroom-summary", say("saved_as", { file: `${panel.subfolder}/${panel.file}` }))),
    jobCopy(panel, link),
    differs,
  ];
}
