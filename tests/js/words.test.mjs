import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import test from "node:test";

import { filled, say, useWords, wordsFor } from "../../js/words.mjs";

const read = (lang) => JSON.parse(readFileSync(new URL(`../../locales/${lang}/main.json`, import.meta.url), "utf8"));
const translations = { en: read("en"), zh: read("zh") };

test("values are put in, and unknown names left", () => {
  assert.equal(filled("{a} of {b}", { a: 1 }), "1 of {b}");
});

test("the words of the page's language are used, English where one is missing", () => {
  const some = { en: { headroom: { a: "A", b: "B" } }, zh: { headroom: { a: "甲" } } };
  assert.deepEqual(wordsFor(some, "zh"), { a: "甲", b: "B" });
  assert.deepEqual(wordsFor(some, "zh-TW"), { a: "甲", b: "B" });
  assert.deepEqual(wordsFor(some, "fr"), { a: "A", b: "B" });
});

test("a word that is missing shows its key, never nothing", () => {
  useWords({ known: "Known {x}" });
  assert.equal(say("known", { x: 1 }), "Known 1");
  assert.equal(say("unknown"), "unknown");
});

test("both languages have the same words with the same values in them", () => {
  const values = (text) => [...text.matchAll(/\{(\w+)\}/g)].map((match) => match[1]).sort();
  assert.deepEqual(Object.keys(translations.zh.headroom).sort(), Object.keys(translations.en.headroom).sort());
  for (const [key, text] of Object.entries(translations.en.headroom)) {
    assert.deepEqual(values(translations.zh.headroom[key]), values(text), key);
  }
});

// Keys that the page puts together or chooses by what it shows.
const BUILT = [
  ...["looking", "none", "no_python", "ready", "folder", "commit", "python", "torch"].map((key) => `toolkit_${key}`),
  ...["none", "file", "environment"].map((key) => `token_${key}`),
  ...["start", "go_on", "takes", "too_large", "not_needed", "environment"].map((key) => `setup_${key}`),
  ...["log", "job"].flatMap((kind) => [`paste_${kind}`, `paste_${kind}_title`, `paste_${kind}_hint`, `${kind}_kept`]),
  ...["safe_to_retry", "not_yet", "nothing_failed", "advice_only", "unsure"],
  ...["empty_job", "empty_classifier", "empty_diagnosis", "empty_saved"],
];

test("every word the page uses is there", () => {
  const sources = ["node", "panel", "paste", "verdict", "settings"].map((name) =>
    readFileSync(new URL(`../../js/${name}.mjs`, import.meta.url), "utf8"),
  );
  const used = [...sources.join("\n").matchAll(/say\("(\w+)"/g)].map((match) => match[1]);
  assert.ok(used.length > 15);
  for (const key of [...used, ...BUILT]) assert.ok(key in translations.en.headroom, key);
});
