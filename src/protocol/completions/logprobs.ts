// Log probabilities in the legacy completions format: four parallel lists over the tokens of a text. No side effects.
import type { Logprob, PromptLogprob, SpelledToken, TokenLogprob } from '../../generation/types.js';
import { JsonList, type JsonText } from '../../http/json-text.js';
import { finiteLogprob } from '../prompt-logprobs.js';

/** The four lists, which are written incrementally because an echoed prompt may be long. */
export class LegacyLogprobs {
  readonly #tokens = new JsonList();
  /** Null for the first token of a prompt, which cannot be predicted from preceding tokens. */
  readonly #logprobs = new JsonList();
  /** The log probabilities of the most likely tokens and of the token itself, keyed by the token's text. */
  readonly #top = new JsonList();
  /** Offset of each token's text within the choice's text, in UTF-16 units. */
  readonly #offsets = new JsonList();

  get length(): number {
    return this.#tokens.length;
  }

  get size(): number {
    return this.#tokens.size + this.#logprobs.size + this.#top.size + this.#offsets.size;
  }

  add(token: string, logprob: number | null, top: ReadonlyMap<string, number> | null, offset: number): void {
    this.#tokens.add(JSON.stringify(token));
    this.#logprobs.add(String(logprob));
    this.#top.add(
      top === null ? 'null' : `{${Array.from(top, ([text, one]) => `${JSON.stringify(text)}:${one}`).join(',')}}`,
    );
    this.#offsets.add(String(offset));
  }

  /** Appends another object's entries. */
  append(other: LegacyLogprobs): void {
    this.#tokens.append(other.#tokens);
    this.#logprobs.append(other.#logprobs);
    this.#top.append(other.#top);
    this.#offsets.append(other.#offsets);
  }

  /** Writes the lists as the next value of `text`. */
  into(text: JsonText): void {
    this.#tokens.into(text.add('{"tokens":'));
    this.#logprobs.into(text.add(',"token_logprobs":'));
    this.#top.into(text.add(',"top_logprobs":'));
    this.#offsets.into(text.add(',"text_offset":'));
    text.add('}');
  }
}

/** A token whose bytes are not complete UTF-8 characters is written as `bytes:\x…`. */
function spelling({ token, bytes }: Pick<Logprob, 'token' | 'bytes'>): string {
  if (!token.includes('\uFFFD')) return token;
  return `bytes:${bytes.map((byte) => `\\x${byte.toString(16).padStart(2, '0')}`).join('')}`;
}

/** Appends the tokens of one text. `most`: number of most likely tokens to list for each token. */
export class LogprobWriter {
  /** `offset`: start position of the tokens in the choice's text. */
  constructor(
    private readonly most: number,
    private offset = 0,
  ) {}

  /** Start position of the next token's text. */
  get at(): number {
    return this.offset;
  }

  /** Appends a prompt's first token. */
  first(token: SpelledToken, into: LegacyLogprobs): void {
    this.#add(token, null, null, into);
  }

  add(entry: TokenLogprob | PromptLogprob, into: LegacyLogprobs): void {
    const top = new Map<string, number>();
    for (const one of [...entry.top.slice(0, this.most), entry]) {
      const text = spelling(one);
      if (!top.has(text)) top.set(text, finiteLogprob(one.logprob));
    }
    this.#add(entry, finiteLogprob(entry.logprob), top, into);
  }

  #add(
    token: Pick<Logprob, 'token' | 'bytes'>,
    logprob: number | null,
    top: ReadonlyMap<string, number> | null,
    into: LegacyLogprobs,
  ): void {
    into.add(spelling(token), logprob, top, this.offset);
    this.offset += token.token.length;
  }
}
