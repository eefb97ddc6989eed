// Small pieces of a page, made of text only: nothing that comes from a log is ever read as HTML.

/** An element with a class and children (elements or texts; null and "" are left out). */
export function element(tag, className, ...children) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  made.append(...children.filter((child) => child !== null && child !== undefined && child !== ""));
  return made;
}

/** A button that does `act` and keeps the click from the canvas. */
export function button(label, act, className = "") {
  const made = element("button", `headroom-button ${className}`, label);
  made.type = "button";
  made.addEventListener("click", (event) => {
    event.stopPropagation();
    act(made);
  });
  return made;
}

/** Put `text` on the clipboard; resolves to whether that worked. Pages without https have only the old way. */
export async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const field = element("textarea", "headroom-offscreen");
    field.value = text;
    document.body.append(field);
    field.select();
    const done = document.execCommand("copy");
    field.remove();
    return done;
  }
}
