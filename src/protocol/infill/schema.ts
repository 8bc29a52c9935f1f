// Schema of an infill request, in llama-server's format. Unknown fields are dropped. For every optional field, null
// means absent.
import { z } from 'zod';
import { integer, MAX_STOP_STRINGS, samplingFields, stopString } from '../fields.js';

/** Maximum number of files in `input_extra`. */
export const MAX_FILES = 1_024;

const { repetition_penalty: penalty, ...sampling } = samplingFields;

export const infillSchema = z.object({
  model: z.string().nullish(),
  input_prefix: z.string(),
  input_suffix: z.string(),
  input_extra: z
    .array(z.object({ filename: z.string().nullish(), text: z.string() }))
    .max(MAX_FILES)
    .nullish(),
  /** Appended to `input_prefix`. */
  prompt: z.string().nullish(),
  /** Maximum number of output tokens; -1 = up to the end of the context window. */
  n_predict: integer().min(-1).nullish(),
  stop: z.union([stopString(), z.array(stopString()).max(MAX_STOP_STRINGS)]).nullish(),
  ...sampling,
  repeat_penalty: penalty,
  ignore_eos: z.boolean().nullish(),
  return_tokens: z.boolean().nullish(),
  stream: z.boolean().nullish(),
  /** Ignored: the prefix cache is always on. */
  cache_prompt: z.boolean().nullish(),
});

export type InfillFields = z.infer<typeof infillSchema>;
