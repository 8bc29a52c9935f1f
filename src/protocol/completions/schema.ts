// Schema of a legacy completions request, including the extra fields that benchmark and evaluation tools send. Unknown
// fields are dropped. For every optional field, null means absent.
import { z } from 'zod';
import { responseFormat } from '../chat-completions/schema.js';
import { constraintFields } from '../constraints.js';
import { bounded, evaluationFields, integer, MAX_STOP_STRINGS, samplingFields, stopString } from '../fields.js';

export const MAX_PROMPTS = 512;
/** Maximum total number of choices over all prompts in a request. */
export const MAX_CHOICES_IN_ALL = 1_024;
export const MAX_BEST_OF = 128;

const tokenId = integer()
  .min(0)
  .max(2 ** 31 - 1);
const tokenIds = z.array(tokenId).min(1);

export const completionRequestSchema = z.object({
  model: z.string(),
  prompt: z.union([
    z.string(),
    tokenIds,
    z.array(z.string()).min(1).max(MAX_PROMPTS),
    z.array(tokenIds).min(1).max(MAX_PROMPTS),
  ]),
  suffix: z.string().nullish(),
  max_tokens: integer().min(0).nullish(),
  n: integer().min(1).max(MAX_BEST_OF).nullish(),
  best_of: integer().min(1).max(MAX_BEST_OF).nullish(),
  echo: z.boolean().nullish(),
  logprobs: integer().min(0).max(20).nullish(),
  stop: z.union([stopString(), z.array(stopString()).max(MAX_STOP_STRINGS)]).nullish(),
  ...samplingFields,
  ...evaluationFields,
  add_special_tokens: z.boolean().nullish(),
  response_format: responseFormat.nullish(),
  ...constraintFields,
  stream: z.boolean().nullish(),
  stream_options: z
    .object({
      include_usage: z.boolean().nullish(),
      include_obfuscation: z.boolean().nullish(),
      continuous_usage_stats: z.boolean().nullish(),
    })
    .nullish(),
  user: bounded(512).nullish(),
});

/** The same schema without validation of the prompt, which prompt.ts validates. */
export const completionEnvelopeSchema = completionRequestSchema.extend({ prompt: z.unknown() });

export type CompletionFields = z.infer<typeof completionEnvelopeSchema>;
