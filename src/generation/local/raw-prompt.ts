// Prompts without messages: text or tokens that the model reads unchanged, or the text around a gap to be filled. One
// instance per loaded model; has no per-request state. Event-loop thread only.
import { filesText } from '../files-text.js';
import type { Engine } from '../../engine/engine.js';
import { apiError } from '../../shared/errors.js';
import type { RawPrompt, RepositoryFile, SpelledToken } from '../types.js';
import type { Vocabulary } from '../provider.js';
import type { TokenTexts } from './token-texts.js';

/**
 * The tokens used in fill-in-the-middle training: before the prefix, before the suffix, and before the generated text.
 * The first entry whose tokens are all in the vocabulary applies. If `middle` is absent, the suffix comes first.
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

/** Special tokens that precede the repository's name (REPOSITORY) and each file's name (FILE), by model family. */
const REPOSITORY = ['<|repo_name|>', '<|fim_repo|>', '<fim-repo>', '<reponame>'];
const FILE = ['<|file_sep|>', '<file_sep>'];
/** Placeholder names. Models were trained with a name after each of these tokens, but requests contain no names. */
const REPOSITORY_NAME = 'repository\n',
  FILE_NAME = 'file\n';

interface Gap {
  readonly before: number;
  readonly behind: number;
  readonly middle: number | null;
}

const PLAIN = { addSpecial: false, parseSpecial: false, guard: 0 };

export class RawPrompts {
  /** Undefined until first used. */
  #gap: Gap | null | undefined;

  constructor(
    private readonly engine: Pick<Engine, 'info' | 'tokenize' | 'findToken'>,
    private readonly model: string,
  ) {}

  /** Throws ApiError 422 for a token outside the vocabulary, an empty prompt, or a gap that the model cannot fill. */
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
        `${raw.path} must not be empty: this model has no begin-of-text token.`,
        raw.path,
      );
    return tokens;
  }

  /** Throws the same ApiError 422 as tokens(), before the prompt is processed. */
  check(raw: RawPrompt): void {
    if (raw.kind === 'tokens') this.#checked(raw);
    else if (raw.suffix !== null) this.#gapTokens(raw.suffixPath);
  }

  #checked({ tokens, path }: Extract<RawPrompt, { kind: 'tokens' }>): Int32Array {
    const { vocabulary } = this.engine.info;
    const wrong = tokens.findIndex((token) => token >= vocabulary);
    if (wrong !== -1)
      throw apiError(
        'invalid_value',
        `${path}[${wrong}] (${tokens[wrong]}) is not a token of this model; its vocabulary has ${vocabulary} tokens.`,
        `${path}[${wrong}]`,
      );
    return Int32Array.from(tokens);
  }

  async #around(
    { text, files = [], suffixPath }: Extract<RawPrompt, { kind: 'text' }>,
    suffix: string,
  ): Promise<Int32Array> {
    const { before, behind, middle } = this.#gapTokens(suffixPath);
    const [bos, prefix, rest] = [
      await this.#encode('', true),
      await this.engine.tokenize(text, PLAIN),
      await this.engine.tokenize(suffix, PLAIN),
    ];
    // Some vocabularies add an end token to every text. It is omitted here, because the model is to continue the text.
    const start = [...(bos.length > 0 ? [bos[0] as number] : []), ...(await this.#fileTokens(files))];
    return Int32Array.from(
      middle === null
        ? [...start, behind, ...rest, before, ...prefix]
        : [...start, before, ...prefix, behind, ...rest, middle],
    );
  }

  async #fileTokens(files: readonly RepositoryFile[]): Promise<number[]> {
    if (files.length === 0) return [];
    const [repository, separator] = [this.#find(REPOSITORY), this.#find(FILE)];
    const tokens: number[] = [];
    const add = async (text: string): Promise<void> => {
      for (const token of await this.engine.tokenize(text, PLAIN)) tokens.push(token);
    };
    if (separator === null) {
      await add(filesText(files));
      return tokens;
    }
    if (repository !== null) {
      tokens.push(repository);
      await add(REPOSITORY_NAME);
    }
    for (const { name, text } of files) {
      tokens.push(separator);
      await add(`${name}\n${text}`);
    }
    tokens.push(separator);
    await add(FILE_NAME);
    return tokens;
  }

  /** Returns the ID of the first of these tokens that is in the vocabulary, or null. */
  #find(spellings: readonly string[]): number | null {
    return spellings.map((spelling) => this.engine.findToken(spelling)).find((token) => token !== -1) ?? null;
  }

  #gapTokens(param = 'suffix'): Gap {
    this.#gap ??= this.#findGap();
    if (this.#gap === null)
      throw apiError(
        'unsupported_value',
        `${param}: ${this.model} does not support filling in the middle: its vocabulary has no tokens for this.`,
        param,
      );
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

/** A model's vocabulary, for counting and converting tokens. */
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
