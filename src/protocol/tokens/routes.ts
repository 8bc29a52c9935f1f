// POST /tokenize and /detokenize: convert a text or a conversation to the model's tokens and back, in vLLM's formats.
// POST /apply-template: renders a conversation as prompt text, in llama-server's format. GET /tokenizer_info: shows
// lm-eval that these endpoints exist. Event-loop thread only.
import { z } from 'zod';
import { ERRORS } from '../../shared/error-codes.js';
import { apiError } from '../../shared/errors.js';
import type { ServedModel } from '../../generation/served-models.js';
import type { Vocabulary } from '../../generation/provider.js';
import type { Exchange, Route } from '../../http/exchange.js';
import { contentLimits, ensureLoaded, findModel, promptTokens, type PromptDeps } from '../admit.js';
import { parseChat } from '../chat-completions/parse.js';
import { annotateModel, callerOf, type Caller } from '../caller.js';
import { nameLeftOut, type ForeignThinking } from '../foreign-thinking.js';
import { integer } from '../fields.js';
import { nameIgnored } from '../ignored.js';
import { validate } from '../validation.js';

/** Maximum number of characters (/tokenize) or tokens (/detokenize) per request. */
const MAX_TEXT = 4 * 1024 * 1024;
const MAX_TOKENS = 1_000_000;

export const tokenizeSchema = z.object({
  model: z.string().nullish(),
  prompt: z.string().nullish(),
  /** An alternative to `prompt`. Can be accompanied by other chat completions fields. */
  messages: z.array(z.unknown()).nullish(),
  add_special_tokens: z.boolean().nullish(),
  return_token_strs: z.boolean().nullish(),
});

export const applyTemplateSchema = z.object({
  model: z.string().nullish(),
  /** Can be accompanied by other chat completions fields. */
  messages: z.array(z.unknown()),
});

export const detokenizeSchema = z.object({
  model: z.string().nullish(),
  tokens: z
    .array(
      integer()
        .min(0)
        .max(2 ** 31 - 1),
    )
    .max(MAX_TOKENS),
});

/** The tokenizer metadata from a model's file. */
export interface TokenizerInfo {
  readonly bos: string | null;
  readonly eos: string | null;
  readonly chatTemplate: string | null;
}

interface Deps extends PromptDeps {
  foreignThinking?: ForeignThinking | undefined;
  names(): readonly string[];
  /** Returns null if the model is not loaded. */
  info(name: string): TokenizerInfo | null;
}

export function tokenRoutes(deps: Deps): Route[] {
  return [
    {
      method: 'POST',
      path: '/tokenize',
      scope: 'tokens.count',
      checksScope: true,
      handler: (exchange) => tokenize(deps, exchange),
    },
    {
      method: 'POST',
      path: '/apply-template',
      scope: 'tokens.count',
      checksScope: true,
      handler: (exchange) => applyTemplate(deps, exchange),
    },
    {
      method: 'GET',
      path: '/tokenizer_info',
      scope: 'tokens.count',
      checksScope: true,
      handler: (exchange) => tokenizerInfo(deps, exchange),
    },
    {
      method: 'POST',
      path: '/detokenize',
      scope: 'tokens.count',
      checksScope: true,
      handler: (exchange) => detokenize(deps, exchange),
    },
  ];
}

async function tokenize(deps: Deps, exchange: Exchange): Promise<void> {
  const { body } = exchange;
  const fields = validate(tokenizeSchema, body);
  if (!fields.ok) throw fields.error;
  const { prompt, messages, add_special_tokens: special, return_token_strs: spelled } = fields.value;
  if ((prompt == null) === (messages == null))
    throw apiError(
      'missing_required_parameter',
      'Exactly one of prompt and messages is required.',
      prompt == null ? 'prompt' : 'messages',
    );
  const caller = callerOf(exchange, '/tokenize', 'chat');
  const model = modelOf(deps, caller, fields.value.model);
  let tokens: ArrayLike<number>;
  if (prompt != null) {
    if (prompt.length > MAX_TEXT)
      throw apiError('string_too_long', `prompt may have at most ${MAX_TEXT} characters.`, 'prompt');
    const vocabulary = await vocabularyOf(model, caller);
    tokens = await vocabulary.encode(prompt, special !== false);
  } else {
    const parsed = parseChat({ ...(body as object), model: model.asked }, deps.foreignThinking);
    const { request } = parsed.content(contentLimits(deps, model));
    nameLeftOut(caller, request.leftOut);
    const found = await promptTokens(deps, caller, model, request);
    if (found === null) return;
    tokens = found;
  }
  if (caller.aborted) return;
  const vocabulary = await vocabularyOf(model, caller);
  const ids = Array.from(tokens);
  exchange.json(200, {
    count: ids.length,
    max_model_len: model.ready().contextWindow,
    tokens: ids,
    token_strs: spelled === true ? ids.map((id) => vocabulary.spell(id).token) : null,
  });
}

/** Returns the rendered prompt of a chat completions request as text. */
async function applyTemplate(deps: Deps, exchange: Exchange): Promise<void> {
  const fields = validate(applyTemplateSchema, exchange.body);
  if (!fields.ok) throw fields.error;
  const caller = callerOf(exchange, '/apply-template', 'chat');
  const model = modelOf(deps, caller, fields.value.model);
  const parsed = parseChat({ ...(exchange.body as object), model: model.asked }, deps.foreignThinking);
  const { request, ignored, ignoredTools } = parsed.content(contentLimits(deps, model));
  nameIgnored({ parameters: ignored, tools: ignoredTools }, exchange);
  nameLeftOut(caller, request.leftOut);
  const found = await promptTokens(deps, caller, model, request);
  if (found === null || caller.aborted) return;
  const vocabulary = await vocabularyOf(model, caller);
  // Omits the BOS token, as llama-server does: a text completion with this prompt adds the token again.
  const [first] = await vocabulary.encode('', true);
  const tokens = Int32Array.from(found);
  const shown = first !== undefined && tokens[0] === first ? tokens.subarray(1) : tokens;
  exchange.json(200, { prompt: caller.charged?.(shown.length, () => vocabulary.decode(shown)) ?? '' });
}

async function detokenize(deps: Deps, exchange: Exchange): Promise<void> {
  const overlong = (exchange.body as { tokens?: unknown } | null)?.tokens;
  // Checked before schema validation, which would report an error for each entry.
  if (Array.isArray(overlong)) {
    if (overlong.length > MAX_TOKENS)
      throw apiError('array_too_long', `tokens may have at most ${MAX_TOKENS} entries.`, 'tokens');
    const wrong = (overlong as unknown[]).findIndex((token) => typeof token !== 'number' || !Number.isInteger(token));
    if (wrong !== -1) throw apiError('invalid_type', `tokens[${wrong}] must be an integer.`, `tokens[${wrong}]`);
  }
  const fields = validate(detokenizeSchema, exchange.body);
  if (!fields.ok && ERRORS[fields.error.code].status === 400) throw fields.error;
  const caller = callerOf(exchange, '/detokenize', 'chat');
  const model = modelOf(deps, caller, (exchange.body as { model?: string | null }).model);
  if (!fields.ok) throw fields.error;
  const { tokens } = fields.value;
  const vocabulary = await vocabularyOf(model, caller);
  const unknown = tokens.findIndex((token) => token >= vocabulary.size);
  if (unknown !== -1)
    throw apiError(
      'invalid_value',
      `tokens[${unknown}] (${tokens[unknown]}) is not a token of this model; its vocabulary has ${vocabulary.size} tokens.`,
      `tokens[${unknown}]`,
    );
  exchange.json(200, {
    prompt: caller.charged?.(tokens.length, () => vocabulary.decode(Int32Array.from(tokens))) ?? '',
  });
}

async function tokenizerInfo(deps: Deps, exchange: Exchange): Promise<void> {
  const caller = callerOf(exchange, '/tokenizer_info', 'chat');
  const model = modelOf(deps, caller, exchange.query.get('model'));
  await vocabularyOf(model, caller);
  const { bos, eos, chatTemplate } = deps.info(model.name) ?? { bos: null, eos: null, chatTemplate: null };
  exchange.json(200, {
    tokenizer_class: 'Monolith',
    bos_token: bos,
    eos_token: eos,
    pad_token: null,
    chat_template: chatTemplate,
  });
}

/** If the server has only one model, `model` may be omitted. */
function modelOf(deps: Deps, caller: Caller, asked: string | null | undefined): ServedModel {
  const names = deps.names();
  const name = asked ?? (names.length === 1 ? names[0] : undefined);
  if (name === undefined)
    throw apiError(
      'missing_required_parameter',
      `model is required, because this server has ${names.length} models.`,
      'model',
    );
  annotateModel(caller, { model: name });
  return findModel(deps, caller, name, 'tokens.count');
}

async function vocabularyOf(model: ServedModel, caller: Caller): Promise<Vocabulary> {
  const { vocabulary } = await ensureLoaded(model, caller);
  if (vocabulary === undefined)
    throw apiError('unsupported_feature', 'Token IDs are not available for upstream models.', 'model');
  return vocabulary;
}
