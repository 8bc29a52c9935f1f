// Converts the inputs of a pooling request to tokens: adds prompts and special tokens, and truncates inputs that are
// too long. One instance per loaded model; has no per-request state.
import type { Engine } from '../../engine/engine.js';
import { apiError } from '../../shared/errors.js';
import type { InputTruncation, PoolingInput, PoolingRequest } from '../pooling.js';

/** Maximum size of a text that the native tokenizer accepts, in bytes. */
const MAX_TEXT_BYTES = 64 * 1024 * 1024;

/** The special tokens that the model's vocabulary puts around a text. */
export interface Edges {
  readonly head: Int32Array;
  readonly tail: Int32Array;
  /** The token that separates the two texts of a pair; null if there is none. */
  readonly separator: number | null;
}

/**
 * The tokens around the query and the document of a pair: before the query, between the two, and after the document.
 */
interface PairParts {
  readonly before: Int32Array;
  readonly between: Int32Array;
  readonly after: Int32Array;
}

/**
 * Texts that are put around the query and the document of a pair: before the query, between the two, and after the
 * document. They may contain the spelling of special tokens.
 */
export interface PairTemplate {
  readonly before: string;
  readonly between: string;
  readonly after: string;
}

/** The prompt that Qwen3 rerankers were trained on. */
export const QWEN3_PAIR: PairTemplate = {
  before:
    '<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and the Instruct provided. Note that the answer can only be "yes" or "no".<|im_end|>\n<|im_start|>user\n<Instruct>: Given a web search query, retrieve relevant passages that answer the query\n<Query>: ',
  between: '\n<Document>: ',
  after: '<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n',
};

export interface InputTokens {
  readonly tokens: Int32Array;
  readonly isTruncated: boolean;
}

type PlainRequest = Pick<PoolingRequest, 'addSpecial' | 'truncation' | 'maxDocumentTokens'>;

export class PoolingInputs {
  #pairParts: PairParts | null = null; // computed when the first pair is tokenized

  constructor(
    private readonly engine: Pick<Engine, 'info' | 'tokenize'>,
    private readonly limits: {
      /** Maximum number of tokens of one input, including prompt and special tokens. */
      readonly maxTokens: number;
      readonly edges: Edges;
      /**
       * The prompt that surrounds each pair. If null, only the vocabulary's special tokens separate the query from the
       * document.
       */
      readonly pair: PairTemplate | null;
    },
  ) {}

  /** Throws ApiError 422 if an input contains token IDs outside the vocabulary. */
  check(inputs: readonly PoolingInput[]): void {
    const { vocabulary } = this.engine.info;
    for (const input of inputs) {
      if (input.kind !== 'tokens') continue;
      const wrong = input.tokens.findIndex((token) => token >= vocabulary);
      if (wrong !== -1)
        throw apiError(
          'invalid_value',
          `${input.path}[${wrong}] (${input.tokens[wrong]}) is not a token of this model; its vocabulary has ${vocabulary} tokens.`,
          `${input.path}[${wrong}]`,
        );
    }
  }

  /**
   * Tokenizes one input and truncates it if the request allows that. `prompt`: the prompt that precedes a text.
   * `queries`: a cache of the tokens of the request's queries, so that each query is tokenized only once. Throws
   * ApiError 400 if the input is too long, and 422 if it is empty or if `truncate_prompt_tokens` is too small.
   */
  async tokens(
    input: PoolingInput,
    request: PlainRequest,
    { prompt, queries }: { prompt: string; queries: Map<string, Int32Array> },
  ): Promise<InputTokens> {
    switch (input.kind) {
      case 'tokens':
        return this.#fitted(Int32Array.from(input.tokens), NO_EDGES, input.path, request.truncation);
      case 'text': {
        const tokens = await this.#encode(prompt + input.text, request.addSpecial, input.path);
        const edges = request.addSpecial ? this.limits.edges : NO_EDGES;
        return this.#fitted(tokens, edges, input.path, request.truncation);
      }
      case 'pair':
        return this.#pair(input, request, queries);
    }
  }

  #exceeds({ length }: Int32Array, truncation: InputTruncation | null): boolean {
    return length > Math.min(this.limits.maxTokens, truncation?.tokens ?? Infinity);
  }

  #fitted(tokens: Int32Array, { head, tail }: Edges, path: string, truncation: InputTruncation | null): InputTokens {
    const { maxTokens } = this.limits;
    if (!this.#exceeds(tokens, truncation)) {
      if (tokens.length > 0) return { tokens, isTruncated: false };
      throw apiError('invalid_value', `${path} must not be empty: this model adds no special tokens to it.`, path);
    }
    if (truncation === null) throw tooLong(path, path, tokens.length, maxTokens);
    const room = Math.min(maxTokens, truncation.tokens ?? Infinity) - head.length - tail.length;
    if (room < 1)
      throw apiError(
        'value_out_of_range',
        `truncate_prompt_tokens must leave room for at least one token besides the ${head.length + tail.length} special tokens of this model.`,
        'truncate_prompt_tokens',
      );
    const inner = tokens.subarray(head.length, tokens.length - tail.length);
    const kept = truncation.side === 'end' ? inner.subarray(0, room) : inner.subarray(inner.length - room);
    return { tokens: joined([head, kept, tail]), isTruncated: true };
  }

  async #pair(
    { query, document, path, queryPath }: Extract<PoolingInput, { kind: 'pair' }>,
    { truncation, maxDocumentTokens }: PlainRequest,
    queries: Map<string, Int32Array>,
  ): Promise<InputTokens> {
    const { maxTokens } = this.limits;
    const { before, between, after } = (this.#pairParts ??= await this.#findPairParts());
    const asked = queries.get(query) ?? (await this.#encode(query, false, queryPath, false));
    queries.set(query, asked);
    const whole = await this.#encode(document, false, path, false);
    const around = before.length + asked.length + between.length + after.length;
    const room = Math.min(maxTokens, truncation?.tokens ?? Infinity) - around;
    const length = Math.min(whole.length, maxDocumentTokens ?? Infinity);
    if (length > room) {
      if (around >= maxTokens)
        throw apiError(
          'context_length_exceeded',
          `${queryPath} has ${asked.length} tokens and ${around - asked.length} are added to each pair, but this model accepts at most ${maxTokens} tokens per pair, including the document.`,
          queryPath,
        );
      if (truncation === null) throw tooLong(`${path} with its query`, path, around + length, maxTokens);
      if (room < 1)
        throw apiError(
          'value_out_of_range',
          `truncate_prompt_tokens must leave room for at least one token of the document besides the ${around} tokens around it, which include ${queryPath}.`,
          'truncate_prompt_tokens',
        );
    }
    const size = Math.min(length, room);
    const kept = truncation?.side === 'start' ? whole.subarray(whole.length - size) : whole.subarray(0, size);
    return { tokens: joined([before, asked, between, kept, after]), isTruncated: size < whole.length };
  }

  async #findPairParts(): Promise<PairParts> {
    const { pair, edges } = this.limits;
    if (pair !== null)
      return {
        before: await this.#encode(pair.before, false, 'query'),
        between: await this.#encode(pair.between, false, 'query'),
        after: await this.#encode(pair.after, false, 'query'),
      };
    const { head, tail, separator } = edges;
    // BERT's format is [CLS] query [SEP] document [SEP]. RoBERTa and its variants use <s> query </s></s> document </s>.
    const doubled = tail.length === 0 || this.engine.info.bos === '<s>';
    const between = doubled && separator !== null ? joined([tail, Int32Array.of(separator)]) : tail;
    return { before: head, between, after: tail };
  }

  #encode(text: string, addSpecial: boolean, path: string, parseSpecial = true): Promise<Int32Array> {
    if (text.length > MAX_TEXT_BYTES || (text.length > MAX_TEXT_BYTES / 4 && Buffer.byteLength(text) > MAX_TEXT_BYTES))
      throw apiError('string_too_long', `${path} may have at most ${MAX_TEXT_BYTES} bytes.`, path);
    return this.engine.tokenize(text, { addSpecial, parseSpecial, guard: 0 });
  }
}

const NO_EDGES: Edges = { head: new Int32Array(), tail: new Int32Array(), separator: null };

function joined(parts: readonly Int32Array[]): Int32Array {
  const tokens = new Int32Array(parts.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const part of parts) {
    tokens.set(part, at);
    at += part.length;
  }
  return tokens;
}

const tooLong = (named: string, path: string, length: number, maximum: number): Error =>
  apiError(
    'context_length_exceeded',
    `${named} has ${length} tokens, but this model accepts at most ${maximum} per input.`,
    path,
  );
