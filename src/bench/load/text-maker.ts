// Creates texts with a given number of tokens without using the model's tokenizer. It draws words with known token
// counts (prepare.ts) and adds up the counts. Pure; the same seed yields the same text.

import { drawsFrom, seedOf } from '../../shared/random.js';
import type { TextMeasure } from './types.js';

/** Common English words. With a preceding space, most are a single token in current vocabularies. */
export const WORDS: readonly string[] = (
  'the of and to in is that for it as was with be by on not he his but at are this have from or had an they which one you were all her she there ' +
  'would their we him been has when who will no more if out so up said what its about than into them can only other time new some could these two ' +
  'may first then do any like my now over such our man me even most made after also did many off before must well back through years much where ' +
  'your way down should because long each just those people how too little state good very make world still see own work day get here between both ' +
  'life being under three never know same last another while us might great old year come since against go came right used take house place water ' +
  'light hand part high found small home point form air line end side head school group river tree stone road paper music garden winter summer ' +
  'morning evening story letter door window table market bridge city field forest island mountain'
).split(' ');

/** Used if the token counts of words are unknown. Every word then counts as one token. */
export const UNMEASURED: TextMeasure = { tokens: WORDS.map(() => 1), overhead: 0, exact: false };

export class TextMaker {
  /** Word indices by token count, ascending. */
  readonly #bySize: readonly (readonly [size: number, places: readonly number[]])[];

  constructor(private readonly measure: TextMeasure) {
    const sizes = [...new Set(measure.tokens)].sort((a, b) => a - b);
    this.#bySize = sizes.map((size) => [size, measure.tokens.flatMap((one, at) => (one === size ? [at] : []))]);
  }

  /** Number of tokens in a request besides its texts. */
  get overhead(): number {
    return this.measure.overhead;
  }

  /**
   * Returns a text of `tokens` tokens, or of one token fewer if no word is short enough to fit exactly. It contains at
   * least one word.
   */
  text(tokens: number, ...seed: readonly [number, ...number[]]): string {
    const draws = drawsFrom(seedOf(...seed));
    const sizes = this.measure.tokens;
    const words: string[] = [];
    const longest = this.#bySize.at(-1)?.[0] ?? 1;
    let left = tokens;
    while (left >= longest) {
      const at = draws.below(sizes.length);
      words.push(WORDS[at] as string);
      left -= sizes[at] as number;
    }
    for (let at = this.#bySize.length - 1; at >= 0; at--) {
      const [size, places] = this.#bySize[at] as readonly [number, readonly number[]];
      for (; left >= size; left -= size) words.push(WORDS[places[draws.below(places.length)] as number] as string);
    }
    if (words.length === 0) words.push(WORDS[this.#bySize[0]?.[1][0] ?? 0] as string);
    return ` ${words.join(' ')}`;
  }
}
