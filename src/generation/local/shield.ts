// Keeps client text separate from the model's control tokens. The template joins both into one string, so a guard
// character breaks up every spelling of a control token in client text. The tokenizer matches no special token across a
// guard and removes guards from ordinary text, so the text itself is tokenized exactly as the client wrote it.
//
// A guard is inserted after a character that starts some special token if the next character could be that token's
// second one, or if the text ends there. Therefore, no spelling can form across the end of a text either.
import { copyNotation } from '../../shared/exact-json.js';

/**
 * Yields the guard candidates: first the noncharacters, which do not occur in valid text, then the private-use area.
 */
function* candidates(): Generator<number> {
  for (let code = 0xfdd0; code <= 0xfdef; code++) yield code;
  for (let code = 0xe000; code <= 0xf8ff; code++) yield code;
}

/** Matches any guard candidate. Used to check texts quickly, because most contain none. */
const CANDIDATES = /[\ufdd0-\ufdef\ue000-\uf8ff]/;

/** Where special tokens could start in a text. */
export interface Starters {
  /** The first characters of all special tokens. */
  readonly characters: readonly string[];
  /** Matches a first character of a special token only if the next character also fits that token. */
  readonly places: RegExp;
}

/**
 * In longer texts, a guard is inserted after every character that starts a special token, because millions of
 * regular-expression matches would block the event loop.
 */
const LONG_TEXT = 1 << 20;

export class Shield {
  /** The guard's code point. */
  readonly guard: number;
  readonly #starters: Starters | null;

  private constructor(guard: number, starters: Starters | null) {
    this.guard = guard;
    this.#starters = starters;
  }

  /** Returns a shield whose guard occurs in none of `texts`, or null if they contain every candidate. */
  static for(texts: Iterable<string>, starters: Starters | null): Shield | null {
    let used: Uint8Array | null = null; // indexed by UTF-16 unit
    for (const text of texts) {
      const first = text.search(CANDIDATES);
      if (first === -1) continue;
      used ??= new Uint8Array(0x10000);
      for (let index = first; index < text.length; index++) used[text.charCodeAt(index)] = 1;
    }
    for (const code of candidates()) if (used === null || used[code] === 0) return new Shield(code, starters);
    return null;
  }

  protect(text: string): string {
    if (this.#starters === null) return text;
    const guard = String.fromCharCode(this.guard);
    if (text.length <= LONG_TEXT) return text.replace(this.#starters.places, `$&${guard}`);
    return this.#starters.characters.reduce(
      (guarded, character) => guarded.replaceAll(character, character + guard),
      text,
    );
  }

  /** Returns a copy of a JSON value with all strings and names protected. Numbers keep their spelling. */
  protectValue<T>(value: T): T {
    return this.#copy(value) as T;
  }

  #copy(value: unknown): unknown {
    if (typeof value === 'string') return this.protect(value);
    if (typeof value !== 'object' || value === null) return value;
    const rename = (key: string): string => (Array.isArray(value) ? key : this.protect(key));
    const copy = Array.isArray(value)
      ? value.map((item) => this.#copy(item))
      : Object.fromEntries(Object.entries(value).map(([key, item]) => [rename(key), this.#copy(item)]));
    copyNotation(value, copy, rename);
    return copy;
  }
}

/** Computes the starters from the spellings of the special tokens. Returns null if there are no special tokens. */
export function startersOf(specialTokens: Iterable<string>): Starters | null {
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
  return { characters: [...seconds.keys()], places: new RegExp(places.join('|'), 'gu') };
}
