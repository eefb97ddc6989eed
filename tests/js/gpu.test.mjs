import assert from "node:assert/strict";
import test from "node:test";

import { question } from "../../js/gpu.mjs";

const values = { gpu: "0: NVIDIA L40S", vram: 50, unit: "% of the card", reserve_gib: 0.5, host_ram_gib: 0, mode: "enforce" };
const node = (linked = []) => ({
  widgets: Object.entries(values).map(([name, value]) => ({ name, value })),
  inputs: [{ name: "other", link: 3 }, ...Object.keys(values).map((name) => ({ widget: { name }, link: linked.includes(name) ? 7 : null }))],
});
const asked = (made) => Object.fromEntries(new URLSearchParams(question(made).split("?")[1]));

test("a node asks for the card and the budget that stand on it", () => {
  assert.deepEqual(asked(node()), { gpu: "0: NVIDIA L40S", vram: "50", unit: "% of the card", reserve_gib: "0.5", mode: "enforce" });
});

test("of a budget that comes over a wire only the card is asked", () => {
  assert.deepEqual(asked(node(["vram"])), { gpu: "0: NVIDIA L40S" });
  assert.deepEqual(asked(node(["gpu"])), { gpu: "auto" });
  assert.equal("vram" in asked(node(["host_ram_gib"])), true, "which says nothing of the card");
});
