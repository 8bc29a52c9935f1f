// Converts a completions request to one GenerationRequest per prompt, or throws the appropriate ApiError. No side
// effects. The stages are the same as for chat completions: JSON structure (400), then the model lookup by the caller,
// then content (422).
import { ERRORS, type ErrorCode } from '../../shared/error-codes.js';
import { apiError, type ApiError } from '../../shared/errors.js';
import type { GenerationRequest, RawPrompt } from '../../generation/types.js';
import { toFormat } from '../chat-completions/parse.js';
import { ineffectiveInCompletions } from '../ineffective.js';
import { overfullMap } from '../entry-limits.js';
import { MAX_LOGIT_BIAS, toEvaluation, toSampling } from '../fields.js';
import { refuseSamplers } from '../samplers.js';
import { readTextsOrTokens, type TextsOrTokens as Prompts } from '../texts-or-tokens.js';
import { validate } from '../validation.js';
import { completionEnvelopeSchema, MAX_CHOICES_IN_ALL, MAX_PROMPTS, type CompletionFields } from './schema.js';

/** The OpenAI API's default. */
const DEFAULT_MAX_TOKENS = 16;

export interface ParsedCompletion {
  model: string;
  /** Runs the checks that come after the model lookup. Throws ApiError 422. */
  content(limits: { maxN: number }): CompletionGeneration;
}

export interface CompletionGeneration {
  /** One request per prompt. */
  requests: GenerationRequest[];
  /** Number of choices returned per prompt: all generated ones, or the best of them. */
  n: number;
  echo: boolean;
  /** Requested number of most likely tokens; null = no log probabilities. */
  logprobs: number | null;
  /** The value of `prompt_logprobs`, which does not depend on `echo`. */
  promptLogprobs: number | null;
  returnTokens: boolean;
  stream: boolean;
  includeUsage: boolean;
  continuousUsage: boolean;
  endUser: string | null;
  ignored: string[];
}

/** Throws ApiError 400 for a body that is not a valid completions request. */
export function parseCompletion(body: unknown): ParsedCompletion {
  const overfull =
    typeof body === 'object' && body !== null
      ? overfullMap(body as Record<string, unknown>, { logit_bias: MAX_LOGIT_BIAS })
      : null;
  if (overfull !== null) throw overfull;
  const envelope = validate(completionEnvelopeSchema, body);
  if (!envelope.ok && envelope.isShape) throw envelope.error;
  const fields = body as { model: string; prompt?: unknown };
  let prompts: Prompts | ApiError;
  try {
    prompts = readTextsOrTokens(fields.prompt, 'prompt', MAX_PROMPTS);
  } catch (error) {
    prompts = error as ApiError;
    if (ERRORS[prompts.code].status === 400) throw prompts;
  }
  return {
    model: fields.model,
    content(limits) {
      if ('code' in prompts) throw prompts;
      if (!envelope.ok) throw envelope.error;
      refuseSamplers(body as Record<string, unknown>);
      return toGeneration(envelope.value, prompts, ineffectiveInCompletions(body as Record<string, unknown>), limits);
    },
  };
}

function refuse(code: ErrorCode, param: string, message: string): never {
  throw apiError(code, message, param);
}

function toGeneration(
  fields: CompletionFields,
  prompts: Prompts,
  ignored: string[],
  limits: { maxN: number },
): CompletionGeneration {
  const n = fields.n ?? 1;
  const candidates = fields.best_of ?? n;
  if (candidates < n) refuse('conflicting_parameters', 'best_of', `best_of must be at least n (${n}).`);
  const counted = fields.best_of == null ? 'n' : 'best_of';
  if (candidates > limits.maxN)
    refuse('unsupported_value', counted, `${counted} must be at most ${limits.maxN} on this server.`);
  if (candidates * prompts.length > MAX_CHOICES_IN_ALL)
    refuse(
      'unsupported_value',
      counted,
      `${prompts.length} prompts with ${candidates} choices each exceed the limit of ${MAX_CHOICES_IN_ALL} choices per request.`,
    );
  const stream = fields.stream === true;
  if (candidates > n && stream)
    refuse(
      'conflicting_parameters',
      'best_of',
      'best_of greater than n cannot be streamed, because the best choices are known only at the end.',
    );
  if (fields.stream_options && !stream)
    refuse('conflicting_parameters', 'stream_options', 'stream_options requires stream: true.');
  const suffix = fields.suffix ?? null;
  const echo = fields.echo === true;
  if (suffix !== null && echo) refuse('conflicting_parameters', 'echo', 'echo and suffix cannot be combined.');
  if (suffix !== null && prompts.some((prompt) => typeof prompt !== 'string'))
    refuse('conflicting_parameters', 'suffix', 'suffix requires a text prompt.');
  const logprobs = fields.logprobs ?? null;
  const maxTokens = fields.max_tokens ?? DEFAULT_MAX_TOKENS;
  const evaluation = toEvaluation(fields, maxTokens);
  // If log probabilities are requested for the output, an echoed prompt gets them too.
  const ofPrompt =
    echo && logprobs !== null
      ? Math.max(logprobs, evaluation.promptLogprobs ?? 0)
      : (evaluation.promptLogprobs ?? null);
  const format = toFormat(fields);
  if (format.type !== 'text' && maxTokens === 0)
    refuse('conflicting_parameters', 'max_tokens', 'response_format cannot be used when no tokens are generated.');

  const common: Omit<GenerationRequest, 'raw'> = {
    model: fields.model,
    messages: [],
    continueFinal: false,
    sampling: toSampling(fields),
    n: candidates,
    maxTokens,
    stop: typeof fields.stop === 'string' ? [fields.stop] : (fields.stop ?? []),
    // `best_of` ranks the choices by their log probabilities.
    topLogprobs: logprobs ?? (candidates > n ? 0 : null),
    effort: 'none',
    reasoningBudget: null,
    tools: [],
    toolChoice: { mode: 'none', allowed: null },
    parallelToolCalls: true,
    format,
    truncation: 'disabled',
    promptParam: 'prompt',
    ignoreEos: fields.ignore_eos === true,
    ...evaluation,
    promptLogprobs: ofPrompt,
  };
  const addSpecial = fields.add_special_tokens !== false;
  const raw = (prompt: Prompts[number], index: number): RawPrompt => {
    const path = prompts.length === 1 ? 'prompt' : `prompt[${index}]`;
    return typeof prompt === 'string'
      ? { kind: 'text', text: prompt, suffix, addSpecial, path }
      : { kind: 'tokens', tokens: prompt, path };
  };
  return {
    requests: prompts.map((prompt, index) => ({ ...common, raw: raw(prompt, index) })),
    n,
    echo,
    logprobs,
    promptLogprobs: evaluation.promptLogprobs ?? null,
    returnTokens: evaluation.returnTokens === true,
    stream,
    includeUsage: fields.stream_options?.include_usage === true,
    continuousUsage: fields.stream_options?.continuous_usage_stats === true,
    endUser: fields.user ?? null,
    ignored,
  };
}
