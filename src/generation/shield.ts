// Keeping a client's text apart from the model's control tokens. The template mixes both into one string;
// a guard character, put behind every character that could begin a control token, breaks each spelling
// that comes from a client. The tokenizer matches no special token across a guard and removes guards
// from ordinary text, so the text itself is tokenized exactly as the client wrote it.

/** Non-characters first (no valid text has them), then the private-use area. */
function* candidates(): Generator<number> {
  for (let code = 0xfdd0; code <= 0xfdef; code++) yield code;
  for (let code = 0xe000; code <= 0xf8ff; code++) yield code;
}

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
    const all = [...texts];
    for (const code of candidates()) {
      const character = String.fromCharCode(code);
      if (!all.some((text) => text.includes(character))) return new Shield(code, starters);
    }
    return null;
  }

  protect(text: string): string {
    return this.#starters === null ? text : text.replace(this.#starters, this.#replacement);
  }
}

/** Matches each first character of the given special-token spellings; null if there are none. */
export function startersOf(specialTokens: Iterable<string>): RegExp | null {
  const first = new Set<string>();
  for (const spelling of specialTokens) {
    const code = spelling.codePointAt(0);
    if (code !== undefined) first.add(String.fromCodePoint(code));
  }
  if (first.size === 0) return null;
  const escaped = [...first].map((character) => `\\u{${character.codePointAt(0)!.toString(16)}}`);
  return new RegExp(`[${escaped.join('')}]`, 'gu');
}
