// How a diagnosis is shown, decided from its data alone.

/** The panel in the page's language where the server prepared it, else the first. */
export function inLanguage(panels, locale) {
  return panels.find((panel) => panel.lang && locale.startsWith(panel.lang)) ?? panels[0];
}

const SURE = 0.6; // at or below this, "nothing failed" only means that nothing was seen

/** Whether the changes are for a person to make, because no job is known that could carry them. */
function adviceOnly(diagnosis) {
  return diagnosis.advice === "change_job" && diagnosis.changes.length > 0 && !diagnosis.yaml;
}

/** The colour of a verdict: good, change, stop or unsure. */
export function tone(diagnosis) {
  if (diagnosis.cause === "unknown") return "unsure";
  if (diagnosis.cause === "none" && !diagnosis.memory_failure) return diagnosis.confidence > SURE ? "good" : "unsure";
  return diagnosis.safe_to_retry || adviceOnly(diagnosis) ? "change" : "stop";
}

/** The key of the word beside the verdict. */
export function badge(diagnosis) {
  if (tone(diagnosis) === "good") return "nothing_failed";
  if (tone(diagnosis) === "unsure") return "unsure";
  if (adviceOnly(diagnosis)) return "advice_only";
  return diagnosis.safe_to_retry ? "safe_to_retry" : "not_yet";
}

/** Whether a line of a diff was taken out, put in, stands around them, or marks a new place. */
export function diffLine(line) {
  return { "-": "gone", "+": "new", "@": "place" }[line[0]] ?? "around";
}
