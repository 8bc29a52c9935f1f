// Extracts parts of a JSON text as written, without whitespace between tokens: numbers keep their digits and objects
// keep the order of their members, both of which parsing would lose. The text must be valid JSON. No side effects.

/** Returns the text without whitespace outside strings. */
export function compacted(text: string): string {
  return text.replace(/("(?:[^"\\]|\\.)*")|\s+/g, (_, string: string | undefined) => string ?? '');
}

/** Returns the members of an object, or the items of an array by index. The text must be in compact form. */
export function membersOf(text: string): Map<string, string> {
  const members = new Map<string, string>();
  const isObject = text.startsWith('{');
  let depth = 0;
  let key: string | null = null;
  let from = 1;
  const take = (to: number): void => {
    if (to > from) members.set(isObject ? (key ?? '') : String(members.size), text.slice(from, to));
  };
  for (let at = 0; at < text.length; at++) {
    const character = text[at] as string;
    if (character === '"') {
      const begin = at;
      for (at++; text[at] !== '"'; at++) if (text[at] === '\\') at++;
      if (depth !== 1 || !isObject || text[at + 1] !== ':' || begin !== from) continue;
      key = JSON.parse(text.slice(begin, at + 1)) as string;
      from = ++at + 1;
    } else if (character === '{' || character === '[') {
      depth++;
    } else if (character === '}' || character === ']') {
      if (--depth === 0) take(at);
    } else if (character === ',' && depth === 1) {
      take(at);
      from = at + 1;
    }
  }
  return members;
}
