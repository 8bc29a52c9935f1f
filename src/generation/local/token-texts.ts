// Spelling and bytes of single tokens, for logprobs. Event-loop thread only.
import type { Logprob, TokenLogprob } from '../types.js';

interface RawLogprob { token: number; logprob: number }

export class TokenTexts {
  // Vocabulary entries are few and repeat at every step: each is turned into text once.
  readonly #known = new Map<number, { token: string; bytes: number[] }>();

  constructor(private readonly vocabulary: { tokenBytes(token: number): Uint8Array }) {}

  withText(entry: RawLogprob & { top: RawLogprob[] }): TokenLogprob {
    return { ...this.#one(entry), top: entry.top.map((candidate) => this.#one(candidate)) };
  }

  #one({ token, logprob }: RawLogprob): Logprob {
    let text = this.#known.get(token);
    if (text === undefined) {
      const bytes = this.vocabulary.tokenBytes(token);
      text = { token: new TextDecoder().decode(bytes), bytes: [...bytes] };
      this.#known.set(token, text);
    }
    return { token: text.token, bytes: text.bytes, logprob };
  }
}
