// Asking our own addresses of the server.

import { say } from "./words.mjs";

/** A function that asks /headroom<path> and resolves to the answer; to {problem, unreached} where there is none. */
export function caller(fetchApi, locale) {
  return async (path, method = "GET", body = undefined) => {
    const [address, asked] = path.split("?");
    const query = new URLSearchParams(asked);
    query.set("lang", locale().startsWith("zh") ? "zh" : "en");
    const sent = body === undefined ? {} : { headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) };
    try {
      const response = await fetchApi(`/headroom${address}?${query}`, { method, ...sent });
      return await response.json();
    } catch (error) {
      return { problem: say("not_reached", { why: error.message }), unreached: true };
    }
  };
}
