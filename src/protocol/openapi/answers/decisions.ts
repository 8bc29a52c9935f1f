// Response schema of decision requests, as published in openapi.json.
import { z } from 'zod';

const count = () => z.int().min(0);
const probability = z.number().min(0).max(1);
const name = z.string().nullable();
const value = z.union([z.string(), z.boolean()]);

/** The answers are in the order of the questions. */
export const decisions = z.strictObject({
  answers: z.array(
    z.discriminatedUnion('type', [
      z.strictObject({ type: z.literal('predicate'), name, probability }),
      z.strictObject({
        type: z.literal('choice'),
        name,
        choice: value,
        confidence: probability,
        probabilities: z.array(z.strictObject({ value, probability })),
      }),
      z.strictObject({
        type: z.literal('score'),
        name,
        /** The expected value: the sum over the levels of value times probability. */
        score: z.number().min(0),
        confidence: probability,
        probabilities: z.array(z.strictObject({ label: z.string(), value: count(), probability })),
      }),
    ]),
  ),
  model: z.string(),
  usage: z.strictObject({
    input_tokens: count(),
    input_tokens_details: z.strictObject({ cached_tokens: count(), cache_write_tokens: z.literal(0) }),
    output_tokens: count(),
    output_tokens_details: z.strictObject({ reasoning_tokens: z.literal(0) }),
    total_tokens: count(),
  }),
});
