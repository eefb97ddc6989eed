// A value that the page itself puts into a node's widget.

/** Choose `value` in a combo; it is offered there, and in the combos that list the same, from now on. */
export function choose(node, widgetName, value) {
  for (const { name, options } of node.widgets) {
    const offered = options?.values;
    if (listsTheSame(name, widgetName) && Array.isArray(offered) && !offered.includes(value)) options.values = [...offered, value];
  }
  const widget = node.widgets.find((each) => each.name === widgetName);
  widget.value = value;
  widget.callback?.(value);
  node.graph?.setDirtyCanvas(true, true);
}

/** `control_folder_2` lists the folders that `folder` does; a log's names are in no other combo. */
function listsTheSame(name, chosen) {
  return name === chosen || (chosen === "folder" && name.includes("folder"));
}
