// Response schemas of embeddings, rankings and scores, as published in openapi.json.
import { z } from 'zod';

const usage = z.strictObject({ prompt_tokens: z.int().min(0), total_tokens: z.int().min(0) });
const relevance = z.number().min(0).max(1);

export const embeddings = z.strictObject({
  object: z.literal('list'),
  data: z.array(
    z.strictObject({
      object: z.literal('embedding'),
      index: z.int().min(0),
      /** A list of numbers, or a base64 string of little-endian 32-bit floats. */
      embedding: z.union([z.array(z.number()), z.string()]),
    }),
  ),
  model: z.string(),
  usage,
});

/** The results are sorted by relevance, highest first. */
export const ranking = z.strictObject({
  id: z.string().regex(/^rerank-[0-9A-Za-z]{24}$/),
  object: z.literal('list'),
  model: z.string(),
  results: z.array(
    z.strictObject({
      index: z.int().min(0),
      relevance_score: relevance,
      document: z.strictObject({ text: z.string() }).optional(),
    }),
  ),
  meta: z.strictObject({
    api_version: z.strictObject({ version: z.enum(['1', '2']) }),
    tokens: z.strictObject({ input_tokens: z.int().min(0), output_tokens: z.literal(0) }),
  }),
  usage,
});

export const scores = z.strictObject({
  id: z.string().regex(/^score-[0-9A-Za-z]{24}$/),
  object: z.literal('list'),
  created: z.int(),
  model: z.string(),
  data: z.array(z.strictObject({ index: z.int().min(0), object: z.literal('score'), score: relevance })),
  usage,
});
