// The dialog that takes a log or a job. Its text goes to the server and is in no widget.

import { button, element } from "./elements.mjs";
import { say } from "./words.mjs";

// Keys and pastes in the dialog are for its text field, not for the canvas behind it.
const OURS = ["keydown", "keyup", "keypress", "paste", "copy", "cut", "wheel", "pointerdown", "contextmenu", "drop", "dragover"];

/**
 * Ask for a log or a job ("log" or "job"); `send(kind, blob)` hands it over and resolves to the server's answer.
 * Resolves to {name, lines, masked_lines, text}, or null when it was cancelled. `text` is null for large files.
 */
export function askForText(kind, send) {
  return new Promise((resolve) => {
    const field = element("textarea", "headroom-field");
    field.spellcheck = false;
    const problem = element("p", "headroom-problem");
    const picker = element("input", "headroom-offscreen");
    picker.type = "file";

    const dialog = element(
      "dialog",
      "headroom-dialog",
      element("h3", "", say(`paste_${kind}_title`)),
      element("p", "", say(`paste_${kind}_hint`), " ", say("paste_promise")),
      field,
      problem,
      element(
        "div",
        "headroom-actions",
        button(say("from_clipboard"), fromClipboard),
        button(say("from_file"), () => picker.click()),
        element("span", "headroom-gap"),
        button(say("cancel"), () => close(null)),
        button(say("use_text"), () => use(new Blob([field.value]), field.value), "headroom-main"),
      ),
      picker,
    );

    function close(result) {
      dialog.close();
      dialog.remove();
      resolve(result);
    }

    async function fromClipboard() {
      try {
        field.value = await navigator.clipboard.readText();
      } catch {
        problem.textContent = say("clipboard_refused");
      }
      field.focus();
    }

    async function use(blob, text) {
      problem.textContent = "";
      dialog.classList.add("headroom-busy");
      try {
        const answer = await send(kind, blob);
        if (answer.problem) problem.textContent = answer.problem;
        else close({ ...answer, text });
      } catch (error) {
        problem.textContent = say("no_answer", { problem: error.message });
      }
      dialog.classList.remove("headroom-busy");
    }

    async function useFile(file) {
      if (file) use(file, kind === "job" ? await file.text() : null);
    }

    picker.addEventListener("change", () => useFile(picker.files[0]));
    dialog.addEventListener("cancel", (event) => {
      event.preventDefault();
      close(null);
    });
    for (const name of OURS) dialog.addEventListener(name, (event) => event.stopPropagation());
    dialog.addEventListener("dragover", (event) => event.preventDefault());
    dialog.addEventListener("drop", (event) => {
      event.preventDefault();
      useFile(event.dataTransfer.files[0]);
    });
    document.body.append(dialog);
    dialog.showModal();
    field.focus();
  });
}
