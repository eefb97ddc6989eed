import assert from "node:assert/strict";
import test from "node:test";

import { badge, diffLine, inLanguage, tone } from "../../js/verdict.mjs";

const failed = { cause: "vram", memory_failure: true, safe_to_retry: true, advice: "change_job", changes: [{}], yaml: "a: 1" };

test("a failure with a corrected job is a change, and safe to retry", () => {
  assert.equal(tone(failed), "change");
  assert.equal(badge(failed), "safe_to_retry");
});

test("changes without a job to carry them are advice, not a job to run", () => {
  for (const safe_to_retry of [true, false]) {
    assert.equal(badge({ ...failed, yaml: null, safe_to_retry }), "advice_only");
    assert.equal(tone({ ...failed, yaml: null, safe_to_retry }), "change");
  }
});

test("a failure that needs something else first stops", () => {
  assert.equal(tone({ ...failed, safe_to_retry: false }), "stop");
  assert.equal(badge({ ...failed, safe_to_retry: false }), "not_yet");
});

test("an unknown cause is unsure, and a run that did not fail is good", () => {
  const unknown = { cause: "unknown", memory_failure: false, safe_to_retry: false, changes: [] };
  const finished = { cause: "none", memory_failure: false, safe_to_retry: true, changes: [], confidence: 0.95 };
  assert.deepEqual([tone(unknown), badge(unknown)], ["unsure", "unsure"]);
  assert.deepEqual([tone(finished), badge(finished)], ["good", "nothing_failed"]);
});

test("a text in which nothing was seen is not called a run that did not fail", () => {
  const empty = { cause: "none", memory_failure: false, safe_to_retry: true, changes: [], confidence: 0.5 };
  assert.deepEqual([tone(empty), badge(empty)], ["unsure", "unsure"]);
});

test("a finished run that lost batches to memory is not shown as good", () => {
  assert.notEqual(tone({ cause: "vram", memory_failure: true, safe_to_retry: true }), "good");
});

test("the panel in the page's language is chosen, else the first", () => {
  const panels = [{ lang: "en" }, { lang: "zh" }];
  assert.equal(inLanguage(panels, "zh-TW").lang, "zh");
  assert.equal(inLanguage(panels, "zh").lang, "zh");
  assert.equal(inLanguage(panels, "fr").lang, "en");
  assert.equal(inLanguage([{ kind: "job" }], "zh").kind, "job");
});

test("lines of a diff are told apart by their first character", () => {
  assert.deepEqual(["-a", "+a", " a", "@@ -1 +1 @@", ""].map(diffLine), ["gone", "new", "around", "place", "around"]);
});
