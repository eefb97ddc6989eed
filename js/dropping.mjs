// Files that are dropped on a node, or chosen, go to the server as a dataset; the node's widget keeps only its name.

import { button, element } from "./elements.mjs";
import { say } from "./words.mjs";
import { choose } from "./widgets.mjs";

const MIB = 1 << 20;

/** Whether a drag brings files, and not a node, a text or a tab. */
export function bringsFiles(event) {
  return [...(event.dataTransfer?.types ?? [])].includes("Files");
}

/**
 * What was dropped as [{file, path}]: folders with all they hold. The browser forgets a drop when its event is over, so
 * the entries are taken before anything is waited for.
 */
export async function dropped(transfer) {
  const entries = [...(transfer.items ?? [])].map((item) => item.webkitGetAsEntry?.()).filter(Boolean);
  if (!entries.length) return [...transfer.files].map((file) => ({ file, path: file.name }));
  const found = [];
  for (const entry of entries) await collect(entry, "", found);
  return found;
}

async function collect(entry, folder, found) {
  const path = folder + entry.name;
  if (entry.isFile) {
    found.push({ file: await new Promise((resolve, reject) => entry.file(resolve, reject)), path });
    return;
  }
  const reader = entry.createReader();
  for (;;) {
    const some = await new Promise((resolve, reject) => reader.readEntries(resolve, reject)); // 100 at most at a time
    if (!some.length) return;
    for (const each of some) await collect(each, `${path}/`, found);
  }
}

/** How much is to be sent, in words. */
export function amount(files) {
  const bytes = files.reduce((sum, { file }) => sum + file.size, 0);
  return { count: files.length, mib: bytes < 10 * MIB ? (bytes / MIB).toFixed(1) : Math.round(bytes / MIB) };
}

/** What the server answered, in lines for a person. */
export function told(answer) {
  return [say("dropped", answer), ...answer.left_out, say("empty_dataset")];
}

/**
 * A place on a node to drop files on, and a button to choose them with; the whole node takes them too. `widgetName` is
 * the widget that gets the dataset's name, `upload(form)` sends a form and resolves to the server's answer, and
 * `tell(elements)` shows how it goes.
 */
export function dropArea(node, widgetName, upload, tell) {
  const picker = element("input", "headroom-offscreen");
  picker.type = "file";
  picker.multiple = true;
  const choosing = button(say("choose_files"), () => picker.click());
  const area = element("div", "headroom-drop", element("span", "", say("drop_here")), choosing, picker);

  async function keep(files) {
    if (area.classList.contains("headroom-busy")) return;
    if (!files.length) return show([say("dropped_none")]);
    area.classList.add("headroom-busy");
    show([say("dropping", amount(files))]);
    try {
      const form = new FormData();
      for (const { file, path } of files) form.append("file", file, path);
      const answer = await upload(form);
      if (answer.problem) show([answer.problem], "headroom-problem");
      else {
        choose(node, widgetName, answer.name);
        show(told(answer));
      }
    } catch (error) {
      show([say("drop_failed", { problem: error.message })], "headroom-problem");
    } finally {
      area.classList.remove("headroom-busy");
    }
  }

  function show(lines, className = "") {
    tell(lines.map((line) => element("p", className, line)));
  }

  function over(event) {
    if (!bringsFiles(event)) return;
    event.preventDefault();
    event.stopPropagation();
    area.classList.add("headroom-over");
  }

  function drop(event) {
    if (!bringsFiles(event)) return;
    event.preventDefault();
    event.stopPropagation();
    area.classList.remove("headroom-over");
    dropped(event.dataTransfer).then(keep);
  }

  area.addEventListener("dragenter", over);
  area.addEventListener("dragover", over);
  area.addEventListener("dragleave", () => area.classList.remove("headroom-over"));
  area.addEventListener("drop", drop);
  picker.addEventListener("change", () => {
    keep([...picker.files].map((file) => ({ file, path: file.name })));
    picker.value = "";
  });
  // The rest of the node: the page asks these before it takes a drop for a workflow of its own.
  node.onDragOver = (event) => bringsFiles(event);
  node.onDragDrop = (event) => {
    if (!bringsFiles(event)) return false;
    dropped(event.dataTransfer).then(keep);
    return true;
  };
  return area;
}
