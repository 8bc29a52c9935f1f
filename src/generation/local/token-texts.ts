// Texts and bytes of single tokens, for log-probabilities. Event-loop thread only.
import type { Logprob, PromptLogprob, SpelledToken, TokenLogprob } from '../types.js';

interface RawLogprob {
  token: number;
  logprob: number;
}

export class TokenTexts {
  // Cached texts by token. The vocabulary is small, and the same tokens occur again and again.
  readonly #known = new Map<number, { token: string; bytes: number[] }>();

  constructor(private readonly vocabulary: { tokenBytes(token: number): Uint8Array }) {}

  withText(entry: RawLogprob & { top: RawLogprob[] }): TokenLogprob {
    return { ...this.#one(entry), top: entry.top.map((candidate) => this.#one(candidate)) };
  }

  ofPrompt(entry: RawLogprob & { top: RawLogprob[] }): PromptLogprob {
    const one = ({ token, logprob }: RawLogprob) => ({ ...this.spell(token), logprob });
    return { ...one(entry), top: entry.top.map(one) };
  }

  spell(id: number): SpelledToken {
    const { token, bytes } = this.#text(id);
    return { id, token, bytes };
  }

  #one({ token: id, logprob }: RawLogprob): Logprob {
    const { token, bytes } = this.#text(id);
    return { token, bytes, logprob };
  }

  #text(id: number): { token: string; bytes: number[] } {
    let text = this.#known.get(id);
    if (text === undefined) {
      const bytes = this.vocabulary.tokenBytes(id);
      text = { token: new TextDecoder('utf-8', { ignoreBOM: true }).decode(bytes), bytes: [...bytes] };
      this.#known.set(id, text);
    }
    return text;
  }
}
