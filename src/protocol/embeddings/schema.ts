// Schema of an embeddings request in OpenAI's format, with vLLM's additional fields. Unknown fields are dropped;
// parse.ts lists them as ignored. For every optional field, null means absent.
import { z } from 'zod';
import { bounded, integer } from '../fields.js';
import { truncationFields } from '../pooling/truncation.js';

export const MAX_INPUTS = 2_048;

const tokenIds = z
  .array(
    integer()
      .min(0)
      .max(2 ** 31 - 1),
  )
  .min(1);

export const embeddingsRequestSchema = z.object({
  model: z.string(),
  input: z.union([
    z.string().min(1),
    tokenIds,
    z.array(z.string().min(1)).min(1).max(MAX_INPUTS),
    z.array(tokenIds).min(1).max(MAX_INPUTS),
  ]),
  dimensions: integer().min(1).nullish(),
  encoding_format: z.enum(['float', 'base64']).nullish(),
  user: bounded(512).nullish(),
  add_special_tokens: z.boolean().nullish(),
  /** Name of the prompt (`models.<id>.embedding_prompts`) that precedes each text. */
  prompt_name: z.string().min(1).max(64).nullish(),
  ...truncationFields,
});

/** The schema of the request without validation of `input`, which texts-or-tokens.ts validates. */
export const embeddingsEnvelopeSchema = embeddingsRequestSchema.extend({ input: z.unknown() });
