import assert from "node:assert/strict";
import test from "node:test";

import { remember, restored } from "../../js/restoring.mjs";

const job = "job: extension\n  folder_path: /home/alice/cat\n  batch_size: 4\n";

test("a job that was not pasted here is copied as it is", () => {
  assert.deepEqual(restored("  folder_path: /home/user/cat\n"), { text: "  folder_path: /home/user/cat\n", count: 0 });
});

test("lines masked when they were pasted come back in the corrected job, changed lines stay changed", () => {
  remember(job, { 2: "  folder_path: /home/user/cat" });
  const corrected = "job: extension\n  folder_path: /home/user/cat\n  batch_size: 1  # smaller\n";
  assert.deepEqual(restored(corrected), {
    text: "job: extension\n  folder_path: /home/alice/cat\n  batch_size: 1  # smaller\n",
    count: 1,
  });
});

test("line ends stay as they are in the corrected job", () => {
  remember("a: /home/bob\r\n", { 1: "a: /home/user\r" });
  assert.equal(restored("a: /home/user\r\nb: 1\r\n").text, "a: /home/bob\r\nb: 1\r\n");
});
