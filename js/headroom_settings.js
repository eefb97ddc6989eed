// Headroom in ComfyUI's settings, and live readings on the budget node.

import { api } from "../../scripts/api.js";
import { app } from "../../scripts/app.js";
import { settings } from "./settings.mjs";
import { say } from "./words.mjs";

const locale = () => app.extensionManager?.setting?.get("Comfy.Locale") ?? navigator.language ?? "en";

const page = {
  /** What the server answers to /headroom…; {problem, unreached} where it does not. */
  async call(path, method = "GET", body = undefined) {
    const address = new URL(`/headroom${path}`, location.origin);
    address.searchParams.set("lang", locale().startsWith("zh") ? "zh" : "en");
    const sent = body === undefined ? {} : { headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) };
    try {
      const response = await api.fetchApi(address.pathname + address.search, { method, ...sent });
      return await response.json();
    } catch (error) {
      return { problem: say("not_reached", { why: error.message }), unreached: true };
    }
  },
};

const style = document.createElement("link");
style.rel = "stylesheet";
style.href = new URL("./settings.css", import.meta.url).href;
document.head.append(style);

app.registerExtension({ name: "headroom.settings", settings: settings(page) });
