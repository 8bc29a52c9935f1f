// POST /api/embed and its predecessor /api/embeddings: vectors of texts, in Ollama's format. /api/embeddings accepts
// only one text. Event-loop thread only.
import type { PoolingRequest } from '../../generation/pooling.js';
import type { Exchange, Route } from '../../http/exchange.js';
import { apiError } from '../../shared/errors.js';
import { ensureLoaded, findModel, type GenerationDeps } from '../admit.js';
import { annotateModel, callerOf, type Caller } from '../caller.js';
import { nameIgnored } from '../ignored.js';
import { ineffectiveInOllama } from '../ineffective.js';
import { runPooling, type PoolingAnswer, type PoolingCall } from '../pooling/run.js';
import { vectorBytes, vectorText, writeVectors } from '../pooling/vectors.js';
import { validate } from '../validation.js';
import { findTagged } from './model-name.js';
import { embeddingsRequestSchema, embedRequestSchema, MAX_EMBED_INPUTS } from './schema.js';

type EmbedPath = '/api/embed' | '/api/embeddings';

export const embedRoutes = (deps: GenerationDeps): Route[] =>
  (['/api/embed', '/api/embeddings'] as const).map((path) => ({
    method: 'POST',
    path,
    scope: 'inference',
    checksScope: true,
    generates: true,
    handler: (exchange) => serve(deps, exchange, path),
  }));

async function serve(deps: GenerationDeps, exchange: Exchange, path: EmbedPath): Promise<void> {
  const call = read(deps, exchange, path);
  if (call.request.inputs.length > 0) return runPooling(deps, exchange, call);
  await ensureLoaded(call.model, call.caller).catch((error: unknown) => {
    if (!call.caller.aborted) throw error;
  });
  exchange.json(200, path === '/api/embed' ? { model: call.named, embeddings: [] } : { embedding: [] });
}

/** Parses the request. A separate function, so that the body can be garbage-collected while the request runs. */
function read(deps: GenerationDeps, exchange: Exchange, path: EmbedPath): PoolingCall & { readonly named: string } {
  const { body } = exchange;
  annotateModel(exchange, body);
  const list = (body as { input?: unknown } | null)?.input;
  // The list length is checked first, because the schema would report one error per invalid entry.
  if (path === '/api/embed' && Array.isArray(list)) checkTexts(list);
  const schema = path === '/api/embed' ? embedRequestSchema : embeddingsRequestSchema;
  const fields = validate<EmbedFields>(schema, body);
  if (!fields.ok && fields.isShape) throw fields.error;
  const { model: named } = body as { model: string };
  const caller = callerOf(exchange, path, 'ollama');
  const model = findTagged(named, (name) => findModel(deps, caller, name));
  if (!fields.ok) throw fields.error;
  nameIgnored({ parameters: ineffectiveInOllama(schema, body as Record<string, unknown>) }, exchange);
  const request = toRequest(fields.value, path === '/api/embed' ? 'input' : 'prompt');
  exchange.annotate({ inputs: request.inputs.length });
  return {
    caller,
    model,
    named,
    request,
    responseBytes: (inputs, width) => vectorBytes('float', inputs * width),
    send: (answer) =>
      path === '/api/embed' ? sendEmbed(exchange, caller, named, answer) : sendLegacy(exchange, answer),
  };
}

interface EmbedFields {
  readonly input?: string | readonly string[] | null | undefined;
  readonly prompt?: string | null | undefined;
  readonly truncate?: boolean | null | undefined;
  readonly dimensions?: number | null | undefined;
}

function checkTexts(list: readonly unknown[]): void {
  if (list.length > MAX_EMBED_INPUTS)
    throw apiError('array_too_long', `input may have at most ${MAX_EMBED_INPUTS} entries.`, 'input');
  const wrong = list.findIndex((text) => typeof text !== 'string');
  if (wrong !== -1) throw apiError('invalid_type', `input[${wrong}] must be a string.`, `input[${wrong}]`);
}

/**
 * Converts the fields to a PoolingRequest. If the request contains no text, the PoolingRequest has no inputs and only
 * loads the model. Texts that are too long are truncated unless `truncate` is false, as in Ollama.
 */
function toRequest({ input, prompt, truncate, dimensions }: EmbedFields, field: string): PoolingRequest {
  const texts = typeof input === 'string' || input == null ? [input ?? prompt ?? ''] : input;
  const isEmpty = texts.length === 1 && texts[0] === '';
  return {
    task: 'embedding',
    inputs: isEmpty
      ? []
      : texts.map((text, index) => ({
          kind: 'text',
          text,
          path: texts.length === 1 ? field : `${field}[${index}]`,
        })),
    addSpecial: true,
    truncation: truncate === false ? null : { tokens: null, side: 'end', field: truncate == null ? null : 'truncate' },
    maxDocumentTokens: null,
    promptName: null,
    dimensions: dimensions ?? null,
  };
}

const nanoseconds = (ms: number): number => Math.max(0, Math.round(ms * 1e6));

async function sendEmbed(
  exchange: Exchange,
  { receivedAt }: Caller,
  model: string,
  { results, usage, loadMs }: PoolingAnswer,
): Promise<void> {
  const text = await writeVectors(exchange, results, (vector) => vectorText(vector, 'float'), {
    before: `{"model":${JSON.stringify(model)},"embeddings":[`,
    after: '],',
  });
  const counts = {
    total_duration: nanoseconds(performance.now() - receivedAt),
    load_duration: nanoseconds(loadMs),
    prompt_eval_count: usage.promptTokens,
  };
  exchange.json(200, text.add(JSON.stringify(counts).slice(1)));
}

async function sendLegacy(exchange: Exchange, { results }: PoolingAnswer): Promise<void> {
  const entry = (vector: Float32Array): string => vectorText(vector, 'float');
  exchange.json(200, await writeVectors(exchange, results, entry, { before: '{"embedding":', after: '}' }));
}
