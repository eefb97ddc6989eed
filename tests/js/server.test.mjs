import assert from "node:assert/strict";
import test from "node:test";

import { caller } from "../../js/server.mjs";

const sent = [];
const answering = (answer) => async (address, options) => {
  sent.push([address, options]);
  return { json: async () => answer };
};

test("what is asked goes as JSON, in the page's language", async () => {
  assert.deepEqual(await caller(answering({ a: 1 }), () => "zh-TW")("/settings/token", "POST", { token: "x" }), { a: 1 });
  const [address, options] = sent.at(-1);
  assert.equal(address, "/headroom/settings/token?lang=zh");
  assert.deepEqual(options, { method: "POST", headers: { "Content-Type": "application/json" }, body: '{"token":"x"}' });
});

test("a question keeps its own values", async () => {
  await caller(answering({}), () => "fr")("/gpus?gpu=0%3A+L40S");
  assert.deepEqual(sent.at(-1), ["/headroom/gpus?gpu=0%3A+L40S&lang=en", { method: "GET" }]);
});

test("a server that does not answer is a problem that can be shown", async () => {
  const answer = await caller(async () => Promise.reject(new Error("gone")), () => "en")("/gpus");
  assert.equal(answer.unreached, true);
  assert.ok(answer.problem);
});
