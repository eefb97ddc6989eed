import assert from "node:assert/strict";
import test from "node:test";

import { busy, diskHolds, gib, host, percent, setupHelps, toolkitFound } from "../../js/found.mjs";

const toolkit = { folder: "/w/ai-toolkit", found_by: "tools", version: "0.12.26", commit: "27a03a91f23eb1b757d5ec2e80ee3e129cfcc350" };
const python = { path: "/w/ai-toolkit/venv/bin/python", version: "3.12.3", torch: "2.9.1", cuda: "12.8" };

test("sizes are for people, and what is not known is not nought", () => {
  assert.equal(gib(8.64), "8.6 GiB");
  assert.equal(gib(23.64), "24 GiB");
  assert.equal(gib(0), "0 GiB");
  assert.equal(gib(null), "?");
  assert.equal(gib(undefined, "unknown"), "unknown");
});

test("a checkup that is awaited is no verdict", () => {
  assert.equal(toolkitFound(undefined).key, "toolkit_looking");
});

test("without AI Toolkit the way on is said", () => {
  assert.deepEqual(toolkitFound({ ai_toolkit: null, python: null, notes: ["run headroom setup", "no driver"] }), {
    tone: "change",
    key: "toolkit_none",
    values: {},
    facts: [],
    notes: ["no driver"],
  });
});

test("AI Toolkit whose Python cannot be used is not ready", () => {
  const found = toolkitFound({ ai_toolkit: toolkit, python: null, notes: ["no torch"] });
  assert.deepEqual(found.notes, ["no torch"]);
  assert.equal(found.tone, "stop");
  assert.deepEqual(found.facts, [["toolkit_folder", "/w/ai-toolkit"], ["toolkit_commit", "27a03a91f23e"]]);
});

test("what is ready is told with its Python and torch", () => {
  const found = toolkitFound({ ai_toolkit: toolkit, python, notes: ["built without CUDA"] });
  assert.deepEqual(found.notes, ["built without CUDA"]);
  assert.deepEqual([found.tone, found.values.version], ["good", "0.12.26"]);
  assert.deepEqual(found.facts.at(-1), ["toolkit_torch", "2.9.1 · CUDA 12.8"]);
  assert.deepEqual(toolkitFound({ ai_toolkit: toolkit, python: { ...python, cuda: null } }).facts.at(-1), ["toolkit_torch", "2.9.1"]);
});

test("a setup is offered unless it has no use", () => {
  const file = { ai_toolkit: { from: "file" } };
  assert.equal(setupHelps(file, { ai_toolkit: null, python: null }), true);
  assert.equal(setupHelps(file, { ai_toolkit: { ...toolkit, found_by: "setting" }, python }), true);
  assert.equal(setupHelps(file, { ai_toolkit: toolkit, python: null }), true, "it mends what it set up");
  assert.equal(setupHelps(file, { ai_toolkit: toolkit, python }), false);
  assert.equal(setupHelps({ ai_toolkit: { from: "environment" } }, { ai_toolkit: null, python: null }), false);
  assert.equal(setupHelps(undefined, undefined), true);
});

test("how far a setup is", () => {
  assert.equal(percent({ done: 1, total: 3 }), 33);
  assert.equal(percent({ done: 3, total: 3 }), 100);
  assert.equal(percent({ done: null, total: null }), null);
  assert.equal(percent(undefined), null);
  assert.deepEqual(["running", "stopping", "idle", "done", "failed", "stopped"].map((state) => busy({ state })), [true, true, false, false, false, false]);
  assert.equal(busy(undefined), false);
});

test("a disk of unknown size is not called too small", () => {
  assert.equal(diskHolds({ gib: 20, free_gib: 65 }), true);
  assert.equal(diskHolds({ gib: 20, free_gib: 19.9 }), false);
  assert.equal(diskHolds({ gib: 20, free_gib: null }), true);
});

test("addresses are named by their host, and paths as they are", () => {
  assert.equal(host("https://download.pytorch.org/whl/cu130"), "download.pytorch.org");
  assert.equal(host("/mnt/ai-toolkit.zip"), "/mnt/ai-toolkit.zip");
});
