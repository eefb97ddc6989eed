import assert from "node:assert/strict";
import test from "node:test";

import { amount, bringsFiles, dropped, told } from "../../js/dropping.mjs";
import { choose } from "../../js/widgets.mjs";
import { useWords } from "../../js/words.mjs";

const file = (name, size = 1) => ({ name, size });
const fileEntry = (name) => ({ name, isFile: true, file: (done) => done(file(name)) });
const folderEntry = (name, ...children) => ({
  name,
  isFile: false,
  createReader() {
    const batches = [children.slice(0, 2), children.slice(2)].filter((batch) => batch.length); // as browsers: some at a time
    return { readEntries: (done) => done(batches.shift() ?? []) };
  },
});
const items = (...entries) => ({ items: entries.map((entry) => ({ webkitGetAsEntry: () => entry })), files: [] });
const paths = (found) => found.map((each) => each.path);

test("files and folders are found with all that is in them, by their paths", async () => {
  const found = await dropped(
    items(fileEntry("loose.png"), folderEntry("cats", fileEntry("1.png"), fileEntry("1.txt"), folderEntry("more", fileEntry("2.png")))),
  );
  assert.deepEqual(paths(found), ["loose.png", "cats/1.png", "cats/1.txt", "cats/more/2.png"]);
  assert.equal(found[0].file.name, "loose.png");
});

test("entries are asked for before anything is waited for: the browser forgets them", async () => {
  let open = true;
  const transfer = { items: [{ webkitGetAsEntry: () => (open ? fileEntry("a.png") : null) }], files: [] };
  const promise = dropped(transfer);
  open = false;
  assert.deepEqual(paths(await promise), ["a.png"]);
});

test("a browser without entries still gives its files", async () => {
  assert.deepEqual(paths(await dropped({ files: [file("a.png"), file("b.txt")] })), ["a.png", "b.txt"]);
});

test("an entry that cannot be read fails the whole drop instead of losing a picture", async () => {
  const broken = { name: "a.png", isFile: true, file: (_, fail) => fail(new Error("gone")) };
  await assert.rejects(dropped(items(broken)), /gone/);
});

test("only a drag of files is ours", () => {
  assert.equal(bringsFiles({ dataTransfer: { types: ["Files"] } }), true);
  assert.equal(bringsFiles({ dataTransfer: { types: ["text/plain"] } }), false);
  assert.equal(bringsFiles({}), false);
});

test("what is sent is counted in files and MiB", () => {
  assert.deepEqual(amount([{ file: file("a", 1 << 20) }, { file: file("b", 1 << 19) }]), { count: 2, mib: "1.5" });
  assert.deepEqual(amount([{ file: file("a", 300 << 20) }]), { count: 1, mib: 300 });
});

test("what was kept and what was left out is told", () => {
  useWords({ dropped: "Kept {media}, {captions}.", empty_dataset: "Press Run." });
  assert.deepEqual(told({ media: 2, captions: 1, left_out: ["Not a.docx."] }), ["Kept 2, 1.", "Not a.docx.", "Press Run."]);
});

test("a new folder is chosen, and offered wherever folders are", () => {
  const widgets = ["folder", "control_folder", "caption_extension"].map((name) => ({ name, value: "old", options: { values: ["old"] } }));
  let called = null;
  widgets[0].callback = (value) => (called = value);
  choose({ widgets: [...widgets, { name: "headroom_panel" }] }, "folder", "new");
  assert.deepEqual(widgets.map((widget) => widget.options.values), [["old", "new"], ["old", "new"], ["old"]]);
  assert.deepEqual([widgets[0].value, widgets[1].value, called], ["new", "old", "new"]);
});

test("a log is offered to no other combo, and nothing is offered twice", () => {
  const widgets = ["log", "job_file"].map((name) => ({ name, value: "", options: { values: ["x"] } }));
  choose({ widgets }, "log", "x");
  choose({ widgets }, "log", "y");
  assert.deepEqual(widgets.map((widget) => widget.options.values), [["x", "y"], ["x"]]);
});
