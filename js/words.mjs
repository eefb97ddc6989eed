// The page's own words, in ComfyUI's language: locales/<lang>/main.json, as the server hands them out.

let words = {};

/** Fill `template` with values: "{lines} lines". */
export function filled(template, values = {}) {
  return template.replace(/\{(\w+)\}/g, (whole, name) => (name in values ? String(values[name]) : whole));
}

/** The words of a language over the English ones, from what `GET /i18n` answers. */
export function wordsFor(translations, locale) {
  const lang = Object.keys(translations).find((name) => locale === name) ?? locale.split("-")[0];
  return { ...translations.en?.headroom, ...translations[lang]?.headroom };
}

/** Use these words from now on. */
export function useWords(chosen) {
  words = chosen;
}

/** A word or sentence of the page; its key where it is missing. */
export function say(key, values) {
  return filled(words[key] ?? key, values);
}
