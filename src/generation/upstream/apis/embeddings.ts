// Sends requests in OpenAI's embeddings format to an upstream server. Vectors are requested in base64, but an upstream
// may also return lists of numbers. One instance per request, which collects the vectors.
import { apiError } from '../../../shared/errors.js';
import type { PoolingRequest } from '../../pooling.js';
import type { AnswerEvents } from '../answer-events.js';
import { notUnderstood, type UpstreamFault } from '../fault.js';
import { bearer, given, listIn, objectIn, placeIn, type AnswerReader, type Body, type UpstreamApi } from './api.js';
import { usageIn } from './chat-parts.js';

/** Maximum vector length that is accepted from an upstream. */
export const MAX_DIMENSIONS = 65_536;

export class EmbeddingsApi implements UpstreamApi {
  readonly path = '/embeddings';
  readonly takesBack = 'text';
  vectors: readonly Float32Array[] = [];

  /** `prompt`: precedes each text. `truncates`: whether the upstream supports `truncate_prompt_tokens`. */
  constructor(
    private readonly request: PoolingRequest | null,
    private readonly prompt: string,
    private readonly truncates: boolean,
  ) {}

  headers(key: string): Record<string, string> {
    return bearer(key);
  }

  holds(): boolean {
    return true;
  }

  body(): Body {
    const { request, prompt } = this;
    if (request === null) throw refusesGeneration();
    const inputs = request.inputs.map((input) =>
      input.kind === 'tokens' ? input.tokens : input.kind === 'text' ? prompt + input.text : input.document,
    );
    return given({
      input: inputs,
      encoding_format: 'base64',
      dimensions: request.dimensions ?? undefined,
      add_special_tokens: request.addSpecial ? undefined : false,
      truncate_prompt_tokens:
        request.truncation === null || !this.truncates ? undefined : (request.truncation.tokens ?? -1),
    });
  }

  reader(answer: AnswerEvents, fault: (error: unknown) => UpstreamFault): AnswerReader {
    const { inputs, dimensions } = this.request ?? { inputs: [], dimensions: null };
    return new EmbeddingsReader(answer, fault, { count: inputs.length, dimensions }, (vectors) => {
      this.vectors = vectors;
    });
  }
}

const refusesGeneration = (): Error =>
  apiError('model_not_generative', 'The upstream server for this model serves embeddings only.', 'model');

class EmbeddingsReader implements AnswerReader {
  constructor(
    private readonly answer: AnswerEvents,
    private readonly fault: (error: unknown) => UpstreamFault,
    private readonly expected: { readonly count: number; readonly dimensions: number | null },
    private readonly keep: (vectors: readonly Float32Array[]) => void,
  ) {}

  event(): Generator<void, void> {
    throw notUnderstood('with a stream instead of embeddings');
  }

  done(): void {
    throw notUnderstood('with a stream instead of embeddings');
  }

  *whole(body: unknown): Generator<void, void> {
    const { error, usage, data } = objectIn(body);
    if (error != null) throw this.fault(error);
    const { count, dimensions } = this.expected;
    const vectors = new Array<Float32Array | undefined>(count).fill(undefined);
    for (const [position, entry] of listIn(data).entries()) {
      const { index, embedding } = objectIn(entry);
      const place = index === undefined ? position : placeIn(index);
      if (place >= count || vectors[place] !== undefined)
        throw notUnderstood('with an embedding that was not requested');
      vectors[place] = vectorIn(embedding);
      yield;
    }
    const complete = vectors.filter((vector) => vector !== undefined);
    if (complete.length < count) throw notUnderstood('without an embedding for each input');
    if (complete.some(({ length }) => length !== complete[0]?.length))
      throw notUnderstood('with embeddings of different lengths');
    if (dimensions !== null && complete.some(({ length }) => length !== dimensions))
      throw notUnderstood('with embeddings that do not have the requested dimensions');
    this.keep(complete);
    // Embeddings have no output tokens, even if the upstream reports some.
    this.answer.usage({ ...usageIn(usage), completionTokens: 0, reasoningTokens: 0 });
    this.answer.ended(0, 'end_of_turn', null);
    this.answer.finish();
  }

  end(): void {
    throw notUnderstood('with a stream instead of embeddings');
  }
}

function vectorIn(value: unknown): Float32Array {
  let vector: Float32Array;
  if (typeof value === 'string') {
    const bytes = Buffer.from(value, 'base64');
    if (bytes.length % 4 !== 0) throw notUnderstood('with an invalid embedding');
    vector = Float32Array.from({ length: bytes.length / 4 }, (_, at) => bytes.readFloatLE(4 * at));
  } else {
    const list = listIn(value);
    if (list.some((one) => typeof one !== 'number')) throw notUnderstood('with an invalid embedding');
    vector = Float32Array.from(list as readonly number[]);
  }
  if (vector.length === 0 || vector.length > MAX_DIMENSIONS || !vector.every(Number.isFinite))
    throw notUnderstood('with an invalid embedding');
  return vector;
}

/**
 * The instance for models that are declared with this API format. It provides the format's path and headers, but cannot
 * run requests.
 */
export const embeddings: UpstreamApi = new EmbeddingsApi(null, '', false);
