// What was masked in a pasted job comes back when the job is copied in the same page. Kept in memory only.

const kept = new Map(); // masked line -> its lines as they were pasted

/** Remember which lines of `text` the server masked: `maskedLines` maps a 1-based line number to what it keeps. */
export function remember(text, maskedLines) {
  const lines = text.split(/\r?\n/);
  for (const [number, masked] of Object.entries(maskedLines)) {
    const original = lines[Number(number) - 1];
    if (original !== undefined) kept.set(masked.trimEnd(), original.trimEnd());
  }
}

/** `text` with every remembered line put back, and how many were. */
export function restored(text) {
  let count = 0;
  const lines = text.split("\n").map((line) => {
    const original = kept.get(line.trimEnd());
    if (original === undefined) return line;
    count += 1;
    return original + line.slice(line.trimEnd().length);
  });
  return { text: lines.join("\n"), count };
}
