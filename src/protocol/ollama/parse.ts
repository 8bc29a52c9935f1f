// Converts the chat and generate requests of Ollama's API to a GenerationRequest, or throws the appropriate ApiError.
// No side effects. The stages are the same as for chat completions: JSON structure (400), then the model lookup by the
// caller, then content (422).
import { apiError } from '../../shared/errors.js';
import { checkOutputFormat } from '../../generation/output-format.js';
import type { GenerationRequest, Message, OutputFormat, RawPrompt } from '../../generation/types.js';
import { isRecord } from '../entry-limits.js';
import { toSampling } from '../fields.js';
import { ineffectiveInOllama } from '../ineffective.js';
import { refuseSamplers } from '../samplers.js';
import { toToolChoice } from '../tools.js';
import { validateInSlices } from '../validate-in-slices.js';
import { validate, validateList } from '../validation.js';
import { overlong } from './bounds.js';
import { toContent, toMessages } from './conversation.js';
import {
  chatEnvelopeSchema,
  chatRequestSchema,
  generateRequestSchema,
  MAX_MESSAGES,
  messageSchema,
  type ChatFields,
  type GenerateFields,
  type OllamaMessage,
} from './schema.js';
import { toTools } from './tools.js';

export interface ParsedOllama {
  model: string;
  /** Runs the checks that follow the model lookup. Throws ApiError 422. */
  content(): OllamaGeneration;
}

export interface OllamaGeneration {
  /** Null if the request has no prompt and only loads the model. */
  request: GenerationRequest | null;
  stream: boolean;
  ignored: string[]; // fields without effect
}

/** Validates the messages of a large request in slices, ahead of parseOllamaChat(), which reports any errors. */
export function validateOllamaInSlices(body: unknown): Iterator<unknown> | null {
  if (
    !isRecord(body) ||
    !Array.isArray(body['messages']) ||
    body['messages'].length > MAX_MESSAGES ||
    overlong(body) !== null
  )
    return null;
  return validateInSlices(messageSchema, body['messages']);
}

/** Throws ApiError 400 for a body that is not a valid chat request. */
export function parseOllamaChat(body: unknown): ParsedOllama {
  const tooLong = overlong(body);
  if (tooLong !== null) throw tooLong;
  const envelope = validate(chatEnvelopeSchema, body);
  if (!envelope.ok && envelope.isShape) throw envelope.error;
  const { model, messages: list } = body as { model: string; messages?: unknown[] | null };
  const messages =
    list == null ? null : list.length > MAX_MESSAGES ? null : validateList(messageSchema, list, 'messages');
  if (messages !== null && !messages.ok && messages.isShape) throw messages.error;
  return {
    model,
    content() {
      if (messages !== null && !messages.ok) throw messages.error;
      if (!envelope.ok) throw envelope.error;
      refuseOptions(body);
      const ignored = ineffectiveInOllama(chatRequestSchema, body as Record<string, unknown>);
      return chatGeneration(envelope.value, messages?.value ?? [], ignored);
    },
  };
}

/** Throws ApiError 400 for a body that is not a valid generate request. */
export function parseOllamaGenerate(body: unknown): ParsedOllama {
  const fields = validate(generateRequestSchema, body);
  if (!fields.ok && fields.isShape) throw fields.error;
  return {
    model: (body as { model: string }).model,
    content() {
      if (!fields.ok) throw fields.error;
      refuseOptions(body);
      const ignored = ineffectiveInOllama(generateRequestSchema, body as Record<string, unknown>);
      return completionGeneration(fields.value, ignored);
    },
  };
}

function chatGeneration(
  fields: ChatFields,
  chatMessages: readonly OllamaMessage[],
  ignored: string[],
): OllamaGeneration {
  const tools = toTools(fields.tools);
  const common = commonRequest(fields, 'messages');
  const stream = fields.stream !== false;
  if (chatMessages.length === 0) return { request: null, stream, ignored: loaded(fields, ignored) };
  const last = chatMessages.at(-1);
  const request: GenerationRequest = {
    ...common,
    messages: toMessages(chatMessages),
    // As in Ollama, an assistant message at the end is continued.
    continueFinal: last?.role === 'assistant' && !last.tool_calls?.length && last.content !== '',
    tools,
    toolChoice: toToolChoice(tools, null, null),
    ...named(ignored),
  };
  return { request, stream, ignored };
}

function completionGeneration(fields: GenerateFields, ignored: string[]): OllamaGeneration {
  refuseUnserved(fields);
  const common = commonRequest(fields, 'prompt');
  const stream = fields.stream !== false;
  const prompt = fields.prompt ?? '';
  const suffix = fields.suffix ?? '';
  if (prompt === '' && suffix === '' && !fields.images?.length)
    return { request: null, stream, ignored: loaded(fields, ignored) };
  if (fields.raw === true || suffix !== '') {
    const raw: RawPrompt = {
      kind: 'text',
      text: prompt,
      suffix: suffix === '' ? null : suffix,
      addSpecial: true,
      path: 'prompt',
    };
    return { request: { ...common, raw, effort: 'none', ...named(ignored) }, stream, ignored };
  }
  const system: Message[] = fields.system ? [{ role: 'system', content: fields.system, path: 'system' }] : [];
  const content = toContent({ content: prompt, images: fields.images }, '');
  return {
    request: { ...common, messages: [...system, { role: 'user', content, path: 'prompt' }], ...named(ignored) },
    stream,
    ignored,
  };
}

/** Reads the options from the request itself, because the schema drops unknown options. Throws ApiError 422. */
function refuseOptions(body: unknown): void {
  const options = isRecord(body) ? body['options'] : null;
  if (isRecord(options)) refuseSamplers(options, 'options.');
}

const named = (ignored: string[]): Pick<GenerationRequest, 'ignored'> => (ignored.length === 0 ? {} : { ignored });

/** Checks a request that only loads the model. Throws ApiError 422 for `keep_alive: 0`, which unloads it in Ollama. */
function loaded({ keep_alive }: Pick<ChatFields, 'keep_alive'>, ignored: string[]): string[] {
  if (keep_alive === 0 || keep_alive === '0' || keep_alive === '0s')
    throw apiError(
      'unsupported_value',
      'keep_alive: 0 does not unload a model on this server. Operators can unload models, and idle models are unloaded automatically.',
      'keep_alive',
    );
  return ignored;
}

/** Rejects known fields that this server does not support, unless their value has no effect. */
function refuseUnserved(fields: GenerateFields): void {
  if (fields.template)
    throw apiError(
      'unsupported_parameter',
      'template is not supported: the model keeps its own chat template. Use raw: true for a prompt without a template.',
      'template',
    );
  if (fields.context != null && fields.context.length > 0)
    throw apiError(
      'unsupported_parameter',
      'context is not supported. Send the conversation as messages to /api/chat instead.',
      'context',
    );
  const plain = fields.raw === true ? 'raw: true' : fields.suffix ? 'suffix' : null;
  if (plain === null) return;
  for (const name of ['system', 'images', 'think'] as const) {
    const value = fields[name];
    if (value === null || value === undefined || value === false || value.valueOf() === '') continue;
    if (Array.isArray(value) && value.length === 0) continue;
    throw apiError(
      'conflicting_parameters',
      `${name} cannot be combined with ${plain}, which passes the prompt to the model without a template.`,
      name,
    );
  }
}

function commonRequest(
  fields: ChatFields | GenerateFields,
  promptParam: GenerationRequest['promptParam'],
): GenerationRequest {
  const { options, think } = fields;
  if (fields.top_logprobs != null && fields.top_logprobs > 0 && fields.logprobs !== true)
    throw apiError('conflicting_parameters', 'top_logprobs requires logprobs: true.', 'top_logprobs');
  const { num_predict: most, stop } = options ?? {};
  return {
    model: fields.model,
    messages: [],
    continueFinal: false,
    sampling: toSampling({ ...options, repetition_penalty: options?.repeat_penalty }),
    n: 1,
    maxTokens: most == null || most <= 0 ? null : most,
    stop: typeof stop === 'string' ? [stop] : (stop ?? []),
    topLogprobs: fields.logprobs === true ? (fields.top_logprobs ?? 0) : null,
    effort: think == null ? null : think === true ? 'enabled' : think === false ? 'none' : think,
    reasoningBudget: null,
    tools: [],
    toolChoice: { mode: 'none', allowed: null },
    parallelToolCalls: true,
    format: toFormat(fields.format),
    truncation: 'disabled',
    promptParam,
    ignoreEos: false,
  };
}

/** Throws ApiError invalid_json_schema or invalid_value. */
function toFormat(asked: ChatFields['format']): OutputFormat {
  if (asked == null || asked === '') return { type: 'text' };
  if (asked === 'json') return { type: 'json_object' };
  if (typeof asked === 'string') throw apiError('invalid_value', 'format must be "json" or a JSON Schema.', 'format');
  const format: OutputFormat = { type: 'json_schema', name: null, schema: asked, strict: false, path: 'format' };
  checkOutputFormat(format);
  return format;
}
