// Case conversions that JavaScript lacks. No side effects.

const CASED = /[\p{L}\p{Lowercase}\p{Uppercase}]/u;

/** Letters whose title case is neither their upper nor their lower case. */
const TITLE: Readonly<Record<string, string>> = { ǆ: 'ǅ', Ǆ: 'ǅ', ǉ: 'ǈ', Ǉ: 'ǈ', ǌ: 'ǋ', Ǌ: 'ǋ', ǳ: 'ǲ', Ǳ: 'ǲ' };

function titleCase(character: string): string {
  const special = TITLE[character];
  if (special !== undefined) return special;
  const upper = character.toUpperCase();
  if (upper.length <= character.length) return upper;
  const [first = '', ...rest] = upper; // such as ß or ﬁ
  return /\p{L}/u.test(rest.join('')) && /^\p{L}$/u.test(first) && character !== 'ŉ'
    ? first + rest.join('').toLowerCase()
    : upper;
}

export function capitalized(text: string): string {
  const [first] = text;
  return first === undefined ? text : titleCase(first) + text.slice(first.length).toLowerCase();
}

/**
 * Writes the first letter of each word in title case and the other letters in lower case. A word is a run of
 * letters.
 */
export function titled(text: string): string {
  let inWord = false;
  let result = '';
  for (const character of text) {
    result += inWord ? character.toLowerCase() : titleCase(character);
    inWord = CASED.test(character);
  }
  return result;
}

export function swappedCase(text: string): string {
  let result = '';
  for (const character of text) {
    const lower = character.toLowerCase();
    result += lower === character ? character.toUpperCase() : lower;
  }
  return result;
}

export function isTitle(text: string): boolean {
  let inWord = false;
  let found = false;
  for (const character of text) {
    const upper = /[\p{Lu}\p{Lt}]/u.test(character);
    const lower = /\p{Ll}/u.test(character);
    if ((upper && inWord) || (lower && !inWord)) return false;
    found ||= upper || lower;
    inWord = upper || lower;
  }
  return found;
}
