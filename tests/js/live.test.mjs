import assert from "node:assert/strict";
import test from "node:test";

import { cardLabel, offerCards } from "../../js/cards.mjs";
import { duration, goesOn, liveLine, nodeOf } from "../../js/live.mjs";
import { useWords } from "../../js/words.mjs";

useWords({
  seconds: "{seconds} s", minutes: "{minutes} min", hours: "{hours} h {minutes} min",
  run_starting: "Starting", run_freeing: "Freeing", phase_load: "Loading", phase_train: "Training",
  run_step: "step {step} of {total}", run_pace: "{seconds} s a step", run_fast_pace: "{steps} steps a second", run_left: "{time} left",
  run_memory: "{used} {unit} of the card", run_memory_of: "{used} of {most} {unit}", run_download: "downloading {name}, {done} GB", run_download_of: "downloading {name}, {done} of {total} GB",
});

test("a run that begins says what it waits for, then its phase", () => {
  assert.equal(liveLine({ state: "freeing" }), "Freeing");
  assert.equal(liveLine({ state: "running" }), "Starting");
  assert.equal(liveLine({ state: "running", phase: "load" }), "Loading");
});

test("a training says its step, pace and the time that is left", () => {
  const told = { state: "running", phase: "train", step: 10, total: 100, seconds_per_step: 2, seconds_left: 180 };
  assert.equal(liveLine(told), "Training · step 10 of 100 · 2.0 s a step · 3 min left");
  assert.equal(liveLine({ ...told, seconds_per_step: 0.25, seconds_left: 22.5 }), "Training · step 10 of 100 · 4.0 steps a second · 23 s left");
  assert.equal(liveLine({ ...told, seconds_per_step: null, seconds_left: null }), "Training · step 10 of 100");
  assert.equal(liveLine({ ...told, step: 100, seconds_left: 0 }), "Training · step 100 of 100 · 2.0 s a step");
});

test("what a run holds of the card stands beside its budget, in a unit that fits", () => {
  const loading = { state: "running", phase: "load", vram_gib: 5.25 };
  assert.equal(liveLine({ ...loading, budget_gib: 22 }), "Loading · 5.3 of 22.0 GiB");
  assert.equal(liveLine(loading), "Loading · 5.3 GiB of the card");
  assert.equal(liveLine({ ...loading, vram_gib: 0.02, budget_gib: 0.05 }), "Loading · 20.5 of 51.2 MiB");
});

test("a download shows how far it is, as far as that is known", () => {
  const loading = { state: "running", phase: "load" };
  assert.equal(liveLine({ ...loading, download: { name: "a.safetensors", bytes: 5e8, total: 1e10 } }), "Loading · downloading a.safetensors, 0.5 of 10.0 GB");
  assert.equal(liveLine({ ...loading, download: { name: "a.safetensors", bytes: 5e8, total: null } }), "Loading · downloading a.safetensors, 0.5 GB");
});

test("times are as precise as a person needs them", () => {
  assert.deepEqual([0.2, 89, 90, 5399, 5400, 7500].map(duration), ["1 s", "89 s", "2 min", "1 h 30 min", "1 h 30 min", "2 h 05 min"]);
});

test("a run goes on until it is over, has failed or was interrupted", () => {
  assert.deepEqual(["starting", "running", "over", "failed", "interrupted"].map((state) => goesOn({ state })), [true, true, false, false, false]);
});

test("a status finds its node, also inside a subgraph, and only in its own graph", () => {
  const inner = { id: 2, comfyClass: "Train" };
  const subgraph = { getNodeById: (id) => (id === 2 ? inner : undefined) };
  const graph = { id: "g", getNodeById: (id) => (id === 3 ? { id: 3, comfyClass: "Check", subgraph } : undefined) };
  const found = (of) => nodeOf({ graph: "g", type: "Check", ...of }, graph);
  assert.equal(found({ node: "3:2", type: "Train" }), inner);
  assert.equal(found({ node: "3" }).id, 3);
  assert.equal(found({ node: "3", type: "Train" }), null);
  assert.equal(found({ node: "4:1" }), null);
  assert.equal(found({ node: "3", graph: "other" }), null);
  assert.equal(found({ node: "3", graph: null }), null);
});

test("the cards that are here are offered, and what was chosen elsewhere stays chosen", () => {
  const widget = { name: "gpu", value: "1: H200", options: { values: ["auto"] } };
  offerCards({ widgets: [widget] }, [{ index: 0, name: "RTX 4090", uuid: "GPU-1", card: null }]);
  assert.deepEqual(widget.options.values, ["auto", "0: RTX 4090"]);
  assert.equal(widget.value, "1: H200");
  assert.equal(cardLabel({ index: 0, name: "A100 MIG 1g", uuid: "MIG-aaaa-12345678", card: "GPU-1" }), "0: A100 MIG 1g (12345678)");
});
