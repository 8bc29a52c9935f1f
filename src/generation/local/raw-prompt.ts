// Prompts that come without messages: a text or tokens as the model is to read them, or what stands around a gap that it is
// to fill. One per loaded model; it holds no state of any request. Event-loop thread only.
import type { Engine } from '../../engine/engine.js';
import { apiError } from '../../shared/errors.js';
import type { RawPrompt, SpelledToken } from '../types.js';
import type { Vocabulary } from '../provider.js';
import type { TokenTexts } from './token-texts.js';

/**
 * How models were taught to fill a gap: what they were shown before its beginning, before its end, and where they began.
 * The first whose tokens a vocabulary has is its way. Without `middle` the end comes first.
 */
interface GapTokens {
  readonly before: string;
  readonly behind: string;
  readonly middle: string | null;
}
const GAPS: readonly GapTokens[] = [
  { before: '<|fim_prefix|>', behind: '<|fim_suffix|>', middle: '<|fim_middle|>' }, // Qwen, CodeGemma, Granite 4
  { before: '<fim_prefix>', behind: '<fim_suffix>', middle: '<fim_middle>' }, // StarCoder, Granite
  { before: '<fim-prefix>', behind: '<fim-suffix>', middle: '<fim-middle>' }, // SantaCoder, Refact
  { before: '<｜fim▁begin｜>', behind: '<｜fim▁hole｜>', middle: '<｜fim▁end｜>' }, // DeepSeek
  { before: '<|code_prefix|>', behind: '<|code_suffix|>', middle: '<|code_middle|>' }, // GLM
  { before: '▁<PRE>', behind: '▁<SUF>', middle: '▁<MID>' }, // Code Llama
  { before: '[PREFIX]', behind: '[SUFFIX]', middle: null }, // Codestral
];

interface Gap {
  readonly before: number;
  readonly behind: number;
  readonly middle: number | null;
}

export class RawPrompts {
  /** Undefined until somebody asks. */
  #gap: Gap | null | undefined;

  constructor(
    private readonly engine: Pick<Engine, 'info' | 'tokenize' | 'findToken'>,
    private readonly model: string,
  ) {}

  /** Throws ApiError 422: no token of the vocabulary, nothing at all, a gap that the model cannot fill. */
  async tokens(raw: RawPrompt): Promise<Int32Array> {
    const tokens =
      raw.kind === 'tokens'
        ? this.#checked(raw)
        : raw.suffix === null
          ? await this.#encode(raw.text, raw.addSpecial)
          : await this.#around(raw, raw.suffix);
    if (tokens.length === 0)
      throw apiError(
        'invalid_value',
        `${raw.path} is empty: this model has no token that every prompt begins with.`,
        raw.path,
      );
    return tokens;
  }

  /** Throws ApiError 422 as tokens() does, before anything is done with the prompt. */
  check(raw: RawPrompt): void {
    if (raw.kind === 'tokens') this.#checked(raw);
    else if (raw.suffix !== null) this.#gapTokens();
  }

  #checked({ tokens, path }: Extract<RawPrompt, { kind: 'tokens' }>): Int32Array {
    const { vocabulary } = this.engine.info;
    const wrong = tokens.findIndex((token) => token >= vocabulary);
    if (wrong !== -1)
      throw apiError(
        'invalid_value',
        `${path}[${wrong}]: ${tokens[wrong]} is not a token of this model, which has ${vocabulary}.`,
        `${path}[${wrong}]`,
      );
    return Int32Array.from(tokens);
  }

  async #around({ text }: { text: string }, suffix: string): Promise<Int32Array> {
    const { before, behind, middle } = this.#gapTokens();
    const plain = { addSpecial: false, parseSpecial: false, guard: 0 };
    const [bos, prefix, rest] = [
      await this.#encode('', true),
      await this.engine.tokenize(text, plain),
      await this.engine.tokenize(suffix, plain),
    ];
    // The vocabulary may end every text with a token: nothing ends here.
    const start = bos.length > 0 ? [bos[0] as number] : [];
    return Int32Array.from(
      middle === null
        ? [...start, behind, ...rest, before, ...prefix]
        : [...start, before, ...prefix, behind, ...rest, middle],
    );
  }

  #gapTokens(): Gap {
    this.#gap ??= this.#findGap();
    if (this.#gap === null)
      throw apiError('unsupported_value', `suffix: ${this.model} has no tokens for filling in the middle.`, 'suffix');
    return this.#gap;
  }

  #findGap(): Gap | null {
    for (const gap of GAPS) {
      const [before, behind, middle] = [gap.before, gap.behind, gap.middle].map((spelling) =>
        spelling === null ? null : this.engine.findToken(spelling),
      );
      if (before !== -1 && behind !== -1 && middle !== -1)
        return { before: before as number, behind: behind as number, middle: middle as number | null };
    }
    return null;
  }

  #encode(text: string, addSpecial: boolean): Promise<Int32Array> {
    const { bos } = this.engine.info;
    return this.engine.tokenize(text, {
      addSpecial: addSpecial && (bos === null || !text.startsWith(bos)),
      parseSpecial: true,
      guard: 0,
    });
  }
}

/** A model's vocabulary, for who counts and spells tokens. */
export class EngineVocabulary implements Vocabulary {
  constructor(
    private readonly engine: Pick<Engine, 'info' | 'tokenize' | 'detokenize'>,
    private readonly texts: TokenTexts,
  ) {}

  get size(): number {
    return this.engine.info.vocabulary;
  }
  encode(text: string, addSpecial: boolean): Promise<Int32Array> {
    return this.engine.tokenize(text, { addSpecial, parseSpecial: true, guard: 0 });
  }
  decode(ids: Int32Array): string {
    return this.engine.detokenize(ids);
  }
  spell(id: number): SpelledToken {
    return this.texts.spell(id);
  }
}
