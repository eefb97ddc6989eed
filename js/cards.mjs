// The cards of the server as the budget node offers them; the server reads them again when it runs.

/** A card as it is chosen: nodes/budget.py `label` writes the same. */
export function cardLabel({ index, name, uuid, card }) {
  return card ? `${index}: ${name} (${uuid.slice(-8)})` : `${index}: ${name}`;
}

/** Offer the cards on the node's `gpu` widget; what a workflow chose stays chosen, here or not. */
export function offerCards(node, gpus) {
  const widget = node.widgets?.find((each) => each.name === "gpu");
  if (widget) widget.options.values = [...new Set(["auto", ...gpus.map(cardLabel)])];
}
