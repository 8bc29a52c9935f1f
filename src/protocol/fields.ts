// Request fields that several API formats share: their zod schemas and the conversion to the internal form. No side
// effects.
import { z } from 'zod';
import type { ErrorCode } from '../shared/error-codes.js';
import { apiError } from '../shared/errors.js';
import type { GenerationRequest, JsonSchema, Sampling } from '../generation/types.js';
import { isRecord } from './entry-limits.js';

/** An integer in JSON. Because JSON has only one number type, 1.0 counts as an integer and 1.5 does not. */
export const integer = () =>
  z
    .number()
    .refine(Number.isInteger, { error: 'must be an integer', params: { api: 'invalid_type' satisfies ErrorCode } })
    .meta({ type: 'integer' });

/** The part of a field's schema in /openapi.json that cannot be derived from zod. */
type PublishedSchema = Readonly<Record<string, unknown>>;

/** For the published schema: an object in which this member is present and not null. `value` is the member's schema. */
export const given = (name: string, value: PublishedSchema): PublishedSchema => ({
  required: [name],
  properties: { [name]: value },
});
/** For the published schema: a reference to a component of /openapi.json. */
export const component = (name: string): PublishedSchema => ({ $ref: `#/components/schemas/${name}` });

/**
 * Whether a string has more than `max` characters. As in the vendors' APIs, code points are counted, not UTF-16
 * units.
 */
export function isLonger(text: string, max: number): boolean {
  if (text.length <= max) return false;
  return text.length > 2 * max || [...text].length > max;
}

/** Schema of a string of at most `max` characters. */
export const bounded = (max: number) =>
  z
    .string()
    .superRefine((text, context) => {
      if (isLonger(text, max))
        context.addIssue({ code: 'too_big', origin: 'string', maximum: max, inclusive: true, input: text });
    })
    .meta({ maxLength: max });

/** Retention of the prompt cache. Some of OpenAI's clients spell `in_memory` with a hyphen. */
export const cacheRetention = () => z.enum(['in_memory', 'in-memory', '24h']).nullish();

/** Members of `prompt_cache_options` that the Chat Completions and Responses formats share. */
export const cacheOptionFields = {
  mode: z.enum(['implicit', 'explicit']).nullish(),
  ttl: z.enum(['30m', '12h']).nullish(),
};

/** Rejects lone surrogates: storage uses UTF-8, so it could not return them unchanged. */
export const isWhole = (text: string): boolean => !/\p{Surrogate}/u.test(text);
export const BROKEN_TEXT = 'must not contain a lone surrogate (half of a UTF-16 pair)';

/** Any JSON object. Its members are not validated, so large objects cost nothing here. */
export const jsonObject = () =>
  z
    .custom<JsonSchema>((value) => typeof value === 'object' && value !== null && !Array.isArray(value), {
      error: 'must be an object',
      params: { api: 'invalid_type' satisfies ErrorCode },
    })
    .meta({ type: 'object' }); // for the published schema, because zod derives nothing from custom checks

/** The name that the client gives its output schema. */
export const schemaName = () =>
  z
    .string()
    .max(64)
    .refine((name) => SCHEMA_NAME.test(name), { error: 'must be 1 to 64 letters, digits, _ or -' })
    .meta({ minLength: 1, pattern: SCHEMA_NAME.source });
const SCHEMA_NAME = /^[A-Za-z0-9_-]+$/;

/**
 * Maximum length of an ID from a client, in characters. The limit is high because some upstreams put signed data in
 * call IDs.
 */
export const MAX_ID = 1_000;
/** IDs from clients, which are accepted without interpretation. */
export const clientId = () => z.string().min(1).max(MAX_ID);

// JSON numbers this large have already lost precision. The bound keeps the conversion to BigInt within 64 bits.
const SEED_MAX = 2 ** 63;
/**
 * 2^63 - 1 is parsed as the double 2^63, which is out of range. For both, the largest double below 2^63 is used
 * instead.
 */
const LARGEST_SEED = 2 ** 63 - 1_024;
/** Values below this would make the engine divide by nearly zero. */
const MIN_REPETITION_PENALTY = 0.01;
export const MAX_LOGIT_BIAS = 1_024;
const TOKEN_ID = /^(0|[1-9]\d{0,8})$/;

/** Sampling fields that have the same name in every format. */
export const samplingFields = {
  temperature: z.number().min(0).max(2).nullish(),
  top_p: z.number().min(0).max(1).nullish(),
  top_k: integer().min(-1).max(1_000).nullish(),
  min_p: z.number().min(0).max(1).nullish(),
  repetition_penalty: z.number().gt(0).max(2).nullish(),
  frequency_penalty: z.number().min(-2).max(2).nullish(),
  presence_penalty: z.number().min(-2).max(2).nullish(),
  seed: integer().min(-SEED_MAX).max(SEED_MAX).nullish(),
  logit_bias: z
    .record(z.string(), z.number().min(-100).max(100))
    .meta({ maxProperties: MAX_LOGIT_BIAS, propertyNames: { pattern: TOKEN_ID.source } })
    .nullish(),
};

export const MAX_STOP_TOKENS = 128;

/** Fields under vLLM's names that benchmark and evaluation tools use with chat and text completions. */
export const evaluationFields = {
  ignore_eos: z.boolean().nullish(),
  min_tokens: integer().min(0).nullish(),
  stop_token_ids: z
    .array(
      integer()
        .min(0)
        .max(2 ** 31 - 1),
    )
    .max(MAX_STOP_TOKENS)
    .nullish(),
  prompt_logprobs: integer().min(0).max(20).nullish(),
  return_token_ids: z.boolean().nullish(),
};

type EvaluationInput = { readonly [K in keyof typeof evaluationFields]?: z.infer<(typeof evaluationFields)[K]> };

export type Evaluation = Pick<GenerationRequest, 'minTokens' | 'stopTokens' | 'promptLogprobs' | 'returnTokens'>;

/**
 * Returns only the fields that the request sets. `maxTokens`: null if the request does not limit the output. Throws
 * ApiError 422.
 */
export function toEvaluation(
  input: EvaluationInput & { stream?: boolean | null | undefined },
  maxTokens: number | null,
): Evaluation {
  const { min_tokens: minTokens, stop_token_ids: stopTokens, prompt_logprobs: promptLogprobs } = input;
  if (minTokens != null && maxTokens !== null && minTokens > maxTokens)
    throw apiError(
      'conflicting_parameters',
      `min_tokens (${minTokens}) must not exceed the maximum number of output tokens (${maxTokens}).`,
      'min_tokens',
    );
  if (promptLogprobs != null && input.stream === true)
    throw apiError(
      'conflicting_parameters',
      'prompt_logprobs cannot be combined with stream: true.',
      'prompt_logprobs',
    );
  return {
    ...(minTokens == null || minTokens === 0 ? {} : { minTokens }),
    ...(stopTokens == null || stopTokens.length === 0 ? {} : { stopTokens }),
    ...(promptLogprobs == null ? {} : { promptLogprobs }),
    ...(input.return_token_ids === true ? { returnTokens: true } : {}),
  };
}

type SamplingInput = { readonly [K in keyof typeof samplingFields]?: z.infer<(typeof samplingFields)[K]> };

/** Throws ApiError for logit_bias keys that are not token IDs. */
export function toSampling(input: SamplingInput): Sampling {
  return {
    temperature: input.temperature ?? undefined,
    topP: input.top_p ?? undefined,
    topK: input.top_k == null ? undefined : Math.max(0, input.top_k),
    minP: input.min_p ?? undefined,
    repetitionPenalty:
      input.repetition_penalty == null ? undefined : Math.max(input.repetition_penalty, MIN_REPETITION_PENALTY),
    frequencyPenalty: input.frequency_penalty ?? undefined,
    presencePenalty: input.presence_penalty ?? undefined,
    seed: input.seed == null ? undefined : BigInt.asIntN(64, BigInt(Math.min(input.seed, LARGEST_SEED))),
    logitBias: toLogitBias(input.logit_bias),
  };
}

function toLogitBias(bias: SamplingInput['logit_bias']): Sampling['logitBias'] {
  if (bias == null) return undefined;
  const entries = Object.entries(bias);
  if (entries.length > MAX_LOGIT_BIAS)
    throw apiError('too_many_entries', `logit_bias may have at most ${MAX_LOGIT_BIAS} entries.`, 'logit_bias');
  return entries.map(([key, value]) => {
    const token = TOKEN_ID.test(key) ? Number(key) : -1;
    if (token < 0) throw apiError('invalid_value', 'logit_bias keys must be decimal token IDs.', 'logit_bias');
    return { token, bias: value };
  });
}

export const VERBOSITIES = ['low', 'medium', 'high'] as const;

/** The schema of one stop string. A list may contain 1 to 16 stop strings. */
export const stopString = () => z.string().min(1).max(256);
export const MAX_STOP_STRINGS = 16;

export const MAX_METADATA = 16;
const MAX_METADATA_KEY = 64;
const MAX_METADATA_VALUE = 512;

/** A map of strings. Validated without zod's record type, which copies the map and drops any key named `__proto__`. */
export const metadataField = z
  .custom<Record<string, string>>(() => true)
  .superRefine((metadata: unknown, context) => {
    if (!isRecord(metadata)) {
      context.addIssue({ code: 'invalid_type', expected: 'record', input: metadata });
      return;
    }
    for (const [key, value] of Object.entries(metadata)) {
      if (typeof value !== 'string')
        context.addIssue({ code: 'invalid_type', expected: 'string', path: [key], input: value });
      else if (isLonger(value, MAX_METADATA_VALUE))
        context.addIssue({
          code: 'too_big',
          origin: 'string',
          maximum: MAX_METADATA_VALUE,
          inclusive: true,
          path: [key],
          input: value,
        });
    }
  })
  .meta({
    type: 'object',
    additionalProperties: { type: 'string', maxLength: MAX_METADATA_VALUE },
    maxProperties: MAX_METADATA,
    propertyNames: { maxLength: MAX_METADATA_KEY },
  })
  .nullish();

/** Allows at most 16 pairs, with keys of at most 64 characters. Throws ApiError 422. */
export function checkMetadata(
  metadata: Readonly<Record<string, string>> | null | undefined,
): Record<string, string> | null {
  if (metadata == null) return null;
  const entries = Object.entries(metadata);
  if (entries.length > MAX_METADATA)
    throw apiError('too_many_entries', `metadata may have at most ${MAX_METADATA} pairs.`, 'metadata');
  if (entries.some(([key]) => isLonger(key, MAX_METADATA_KEY)))
    throw apiError('string_too_long', `metadata keys may have at most ${MAX_METADATA_KEY} characters.`, 'metadata');
  return { ...metadata };
}
