// Headroom in ComfyUI's settings: AI Toolkit (what is found, its folder, its setup) and the Hugging Face token.
// Nothing of it is kept in ComfyUI's own settings, which any page can read: the server keeps it, and never tells the token.

import { button, element } from "./elements.mjs";
import { busy, diskHolds, gib, host, percent, setupHelps, toolkitFound } from "./found.mjs";
import { say } from "./words.mjs";

const POLL_MS = 1000;

/** The settings to register. `call(path, method, body)` resolves to the server's answer, or {problem}. */
export function settings(call) {
  const known = {}; // the server's latest answers: settings, checkup, setup
  const rows = new Set();
  let opening = null;
  let following = null;

  async function learn(name, path) {
    const answer = await call(path);
    const ended = name === "setup" && busy(known.setup) && !busy(answer);
    if (!answer.unreached) known[name] = answer;
    draw();
    if (name === "setup") follow();
    if (ended) refresh();
  }

  function refresh() {
    known.checkup = undefined;
    draw();
    return Promise.all([learn("settings", "/settings"), learn("checkup", "/doctor"), learn("setup", "/setup")]);
  }

  function follow() {
    clearTimeout(following);
    if (busy(known.setup) && rows.size) following = setTimeout(() => learn("setup", "/setup"), POLL_MS);
  }

  function draw() {
    for (const row of rows) {
      row.seen ||= row.root.isConnected;
      if (row.seen && !row.root.isConnected) rows.delete(row); // the panel was closed
      else row.draw(known);
    }
  }

  /** Send a change and show what came of it in `told`; resolves to whether it was made. */
  async function change(told, path, method, body) {
    told.textContent = "";
    const answer = await call(path, method, body);
    told.textContent = answer.problem ?? "";
    if (answer.problem && !answer.damaged) return false;
    await refresh();
    return true;
  }

  function row(id, group, order, make) {
    return {
      id: `Headroom.${id}`,
      name: id, // this and the tooltip are said by locales/<lang>/settings.json
      tooltip: id,
      category: ["Headroom", group, id],
      defaultValue: null,
      sortOrder: order,
      type: () => {
        const made = make({ call, change, refresh, learn });
        const row = { root: element("div", "headroom-setting", ...made.parts), draw: made.draw, seen: false };
        rows.add(row);
        row.draw(known);
        opening ??= setTimeout(() => {
          opening = null;
          refresh();
        });
        return row.root;
      },
    };
  }

  return [
    row("AIToolkit.Found", "AI Toolkit", 40, foundRow),
    row("AIToolkit.Folder", "AI Toolkit", 30, folderRow),
    row("AIToolkit.Setup", "AI Toolkit", 20, setupRow),
    row("HuggingFace.Token", "Hugging Face", 10, tokenRow),
  ];
}

function live(className) {
  const made = element("p", className);
  made.setAttribute("role", "status");
  return made;
}

function facts(pairs) {
  return element("dl", "headroom-setting-facts", ...pairs.flatMap(([key, text]) => [element("dt", "", say(key)), element("dd", "", text)]));
}

/** A field and its button; Enter does the same. */
function asking(label, field, act) {
  const form = element("form", "headroom-setting-ask", field, button(label, () => form.requestSubmit(), "headroom-main"));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    act(field.value);
  });
  field.spellcheck = false;
  field.autocomplete = "off";
  field.setAttribute("aria-label", label);
  return form;
}

function foundRow({ refresh }) {
  const place = element("div", "");
  place.setAttribute("role", "status");
  const report = element("pre", "headroom-text");
  const all = element("details", "headroom-section", element("summary", "", say("checkup_all")), report);
  const again = button(say("check_again"), () => refresh());
  function draw({ checkup }) {
    const found = toolkitFound(checkup?.problem ? undefined : checkup);
    place.replaceChildren(
      element("div", `headroom-verdict headroom-${found.tone}`, element("p", "headroom-summary", say(found.key, found.values)), checkup?.problem && element("p", "", checkup.problem)),
      found.facts.length ? facts(found.facts) : "",
      ...found.notes.map((note) => element("p", found.tone === "stop" ? "headroom-problem" : "headroom-note", note)),
    );
    report.textContent = checkup?.text ?? "";
    all.hidden = !checkup?.text;
    again.disabled = !checkup;
  }
  return { parts: [place, all, element("div", "headroom-actions", again)], draw };
}

function folderRow({ change }) {
  const told = live("headroom-problem");
  const note = element("p", "headroom-note");
  const field = element("input", "headroom-input");
  field.placeholder = "/workspace/ai-toolkit";
  const form = asking(say("folder_use"), field, (text) => change(told, "/settings/ai_toolkit", "POST", { folder: text }));
  const forget = button(say("folder_forget"), () => change(told, "/settings/ai_toolkit", "POST", { folder: null }));
  const aside = button(say("settings_aside"), () => change(told, "/settings/set_aside", "POST", {}));
  let shown = null;
  function draw({ settings }) {
    const { folder, from } = settings?.ai_toolkit ?? {};
    if (settings && folder !== shown) field.value = folder ?? (field.value === shown ? "" : field.value);
    if (settings) shown = folder;
    form.hidden = from === "environment";
    forget.hidden = from !== "file";
    aside.hidden = !settings?.damaged;
    note.textContent = from === "environment" ? say("by_environment", { name: "HEADROOM_AI_TOOLKIT", value: folder }) : say("folder_note");
    if (settings?.problem) told.textContent = settings.problem;
  }
  return { parts: [form, told, note, element("div", "headroom-actions", forget, aside)], draw };
}

function setupRow({ call, learn }) {
  const told = live("headroom-problem");
  const takes = element("div", "headroom-note");
  const bar = element("progress", "headroom-progress");
  bar.max = 100;
  const step = live("headroom-step");
  const detail = element("p", "headroom-detail");
  const act = (path) => async () => {
    told.textContent = "";
    const answer = await call(path, "POST", {});
    if (answer.problem) told.textContent = answer.problem;
    learn("setup", "/setup");
  };
  const start = button(say("setup_start"), act("/setup"), "headroom-main");
  const stop = button(say("setup_stop"), act("/setup/stop"));
  function draw({ settings, checkup, setup }) {
    const working = busy(setup);
    const helps = setupHelps(settings, checkup);
    const done = percent(setup);
    if (done === null) bar.removeAttribute("value");
    else bar.value = done;
    bar.hidden = stop.hidden = detail.hidden = !working;
    stop.disabled = setup?.state === "stopping";
    start.hidden = working || !helps || !setup;
    start.textContent = say(setup?.state === "stopped" || setup?.state === "failed" ? "setup_go_on" : "setup_start");
    step.textContent = stepSaid(setup, done) || (helps ? "" : say(settings?.ai_toolkit?.from === "environment" ? "setup_environment" : "setup_not_needed"));
    detail.textContent = setup?.detail ?? "";
    told.textContent = working ? "" : (setup?.problem ?? told.textContent);
    takes.replaceChildren(...(setup?.needs && helps ? takesSaid(setup.needs) : []));
  }
  return { parts: [takes, step, bar, detail, told, element("div", "headroom-actions", start, stop)], draw };
}

function stepSaid(setup, done) {
  if (!setup) return "";
  if (setup.state === "stopping") return say("setup_stopping");
  if (setup.state === "running") return done === null ? say("setup_step", { step: setup.step ?? "" }) : say("setup_step_percent", { step: setup.step, percent: done });
  return { done: say("setup_done", { version: setup.version ?? "" }), stopped: say("setup_stopped") }[setup.state] ?? "";
}

function takesSaid(needs) {
  const values = { gib: gib(needs.gib), free: gib(needs.free_gib, say("unknown")), folder: needs.folder };
  const source = { source: host(needs.source), commit: needs.commit?.slice(0, 12) ?? say("newest"), index: needs.index ? host(needs.index) : "pip", torch: needs.torch[0] };
  return [
    element("p", "", say("setup_brings", source)),
    element("p", diskHolds(needs) ? "" : "headroom-problem", say(diskHolds(needs) ? "setup_takes" : "setup_too_large", values)),
  ];
}

function tokenRow({ change }) {
  const told = live("headroom-problem");
  const state = live("headroom-step");
  const field = element("input", "headroom-input");
  field.type = "password";
  field.placeholder = "hf_…";
  const form = asking(say("token_keep"), field, async (text) => {
    field.value = ""; // it goes to the server and stays nowhere else
    await change(told, "/settings/token", "POST", { token: text });
  });
  field.autocomplete = "new-password"; // else the browser offers to keep it
  const remove = button(say("token_remove"), () => change(told, "/settings/token", "DELETE"));
  function draw({ settings }) {
    const from = settings?.token?.from;
    state.textContent = settings ? say(`token_${from ?? "none"}`) : "";
    form.hidden = from === "environment";
    remove.hidden = from !== "file";
  }
  return { parts: [state, form, told, element("p", "headroom-note", say("token_note")), element("div", "headroom-actions", remove)], draw };
}
