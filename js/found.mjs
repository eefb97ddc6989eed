// What the settings panel says, decided from the server's answers alone.

const BUSY = ["running", "stopping"];

/** A size for people: "8.6 GiB", or the word for what is not known. */
export function gib(size, unknown = "?") {
  return size === null || size === undefined ? unknown : `${size < 10 ? Math.round(size * 10) / 10 : Math.round(size)} GiB`;
}

/**
 * How AI Toolkit stands: tone, the word to say it with and its values, the facts of what is there, and
 * what hinders it or is worth knowing (`notes`).
 * `checkup` is what /headroom/doctor answers; undefined while that is awaited.
 */
export function toolkitFound(checkup) {
  if (!checkup) return { tone: "unsure", key: "toolkit_looking", values: {}, facts: [], notes: [] };
  const { ai_toolkit: toolkit, python, notes } = checkup;
  // The first note says that there is none, and how the command line helps: here are buttons for that.
  if (!toolkit) return { tone: "change", key: "toolkit_none", values: {}, facts: [], notes: notes.slice(1) };
  const facts = [["toolkit_folder", toolkit.folder]];
  if (toolkit.commit) facts.push(["toolkit_commit", toolkit.commit.slice(0, 12)]);
  if (!python) return { tone: "stop", key: "toolkit_no_python", values: {}, facts, notes };
  facts.push(["toolkit_python", `${python.version} · ${python.path}`]);
  facts.push(["toolkit_torch", python.cuda ? `${python.torch} · CUDA ${python.cuda}` : python.torch]);
  return { tone: "good", key: "toolkit_ready", values: { version: toolkit.version ?? "" }, facts, notes };
}

/** Whether a setup is at work. */
export function busy(setup) {
  return BUSY.includes(setup?.state);
}

/** Whether the button that sets AI Toolkit up has a use: not for one that works already, nor where the server's owner chose. */
export function setupHelps(settings, checkup) {
  if (settings?.ai_toolkit?.from === "environment") return false;
  return !(checkup?.python && checkup.ai_toolkit?.found_by === "tools");
}

/** How far a setup is, in percent; null where nobody can tell. */
export function percent(setup) {
  return setup?.total ? Math.min(100, Math.floor((100 * setup.done) / setup.total)) : null;
}

/** Whether the disk holds what a setup takes; unknown is not "no". */
export function diskHolds(needs) {
  return needs.free_gib === null || needs.free_gib >= needs.gib;
}

/** Where a package index or repository is, as people name it: its host. */
export function host(address) {
  try {
    return new URL(address).host;
  } catch {
    return address;
  }
}
