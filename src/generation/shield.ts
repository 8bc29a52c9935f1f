// Keeping a client's text apart from the model's control tokens. The template mixes both into one string;
// a guard character breaks each spelling of a control token that comes from a client. The tokenizer matches
// no special token across a guard and removes guards from ordinary text, so the text itself is tokenized
// exactly as the client wrote it.
//
// A guard is put behind a character that begins some special token if what follows could be that token's
// second character, or is out of sight because the text ends: no spelling can form across a seam either.

/** Non-characters first (no valid text has them), then the private-use area. */
function* candidates(): Generator<number> {
  for (let code = 0xfdd0; code <= 0xfdef; code++) yield code;
  for (let code = 0xe000; code <= 0xf8ff; code++) yield code;
}

/** All of them at once: one pass over a text tells which it uses. */
const CANDIDATES = /[\ufdd0-\ufdef\ue000-\uf8ff]/g;

export class Shield {
  /** The guard's code point. */
  readonly guard: number;
  readonly #starters: RegExp | null;
  readonly #replacement: string;

  private constructor(guard: number, starters: RegExp | null) {
    this.guard = guard;
    this.#starters = starters;
    this.#replacement = `$&${String.fromCharCode(guard)}`;
  }

  /** A shield whose guard occurs in none of `texts`; null if they use up every candidate. */
  static for(texts: Iterable<string>, starters: RegExp | null): Shield | null {
    const used = new Set<number>();
    for (const text of texts) {
      for (const { 0: found } of text.matchAll(CANDIDATES)) used.add(found.charCodeAt(0));
    }
    for (const code of candidates()) if (!used.has(code)) return new Shield(code, starters);
    return null;
  }

  protect(text: string): string {
    return this.#starters === null ? text : text.replace(this.#starters, this.#replacement);
  }
}

/** Matches each place where one of the given special-token spellings could begin; null if there are none. */
export function startersOf(specialTokens: Iterable<string>): RegExp | null {
  const seconds = new Map<string, Set<string>>();
  for (const spelling of specialTokens) {
    const [first, second] = spelling;
    if (first === undefined) continue;
    let following = seconds.get(first);
    if (following === undefined) seconds.set(first, (following = new Set()));
    if (second !== undefined) following.add(second);
  }
  if (seconds.size === 0) return null;
  const escape = (character: string): string => `\\u{${character.codePointAt(0)!.toString(16)}}`;
  const places = [...seconds].map(([first, following]) => {
    const next = following.size === 0 ? '' : `[${[...following].map(escape).join('')}]|`;
    return `${escape(first)}(?=${next}$)`;
  });
  return new RegExp(places.join('|'), 'gu');
}
