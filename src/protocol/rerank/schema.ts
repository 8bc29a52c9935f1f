// Schemas of rerank requests in the format that Cohere and Jina share, and of score requests in vLLM's format. Unknown
// fields are dropped; parse.ts lists them as ignored. For every optional field, null means absent.
import { z } from 'zod';
import { bounded, integer } from '../fields.js';
import { truncationFields } from '../pooling/truncation.js';

export const MAX_DOCUMENTS = 2_048;
/** Default maximum number of tokens per document, as in Cohere's API. */
export const DEFAULT_DOCUMENT_TOKENS = 4_096;

const text = z.string().min(1);
const document = z.union([text, z.object({ text })]);

export const rerankRequestSchema = z.object({
  model: z.string(),
  query: text,
  documents: z.array(document).min(1).max(MAX_DOCUMENTS),
  top_n: integer().min(1).nullish(),
  return_documents: z.boolean().nullish(),
  max_tokens_per_doc: integer().min(1).nullish(),
  user: bounded(512).nullish(),
  ...truncationFields,
});

const texts = z.union([text, z.array(text).min(1).max(MAX_DOCUMENTS)]);

export const scoreRequestSchema = z.object({
  model: z.string(),
  text_1: texts,
  text_2: texts,
  user: bounded(512).nullish(),
  ...truncationFields,
});

export type RerankFields = z.infer<typeof rerankRequestSchema>;
export type ScoreFields = z.infer<typeof scoreRequestSchema>;
