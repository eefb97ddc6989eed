// Headroom in ComfyUI's settings.

import { api } from "../../scripts/api.js";
import { app } from "../../scripts/app.js";
import { caller } from "./server.mjs";
import { settings } from "./settings.mjs";

const locale = () => app.extensionManager?.setting?.get("Comfy.Locale") ?? navigator.language ?? "en";

const style = document.createElement("link");
style.rel = "stylesheet";
style.href = new URL("./settings.css", import.meta.url).href;
document.head.append(style);

app.registerExtension({ name: "headroom.settings", settings: settings(caller(api.fetchApi.bind(api), locale)) });
