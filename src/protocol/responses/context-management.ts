// The `context_management` parameter of the Responses API. No side effects.
import { z } from 'zod';
import type { Compaction } from '../context/edits.js';
import { integer } from '../fields.js';

/** OpenAI's minimum. */
const MIN_THRESHOLD = 1_000;

export const contextManagementField = z
  .array(
    z.discriminatedUnion('type', [
      z.object({ type: z.literal('compaction'), compact_threshold: integer().min(MIN_THRESHOLD).nullish() }),
    ]),
  )
  .max(1)
  .nullish();

/** Returns null if the conversation should not be compacted. */
export function readCompaction(wire: z.infer<typeof contextManagementField>): Compaction | null {
  const [entry] = wire ?? [];
  if (entry === undefined) return null;
  return { threshold: entry.compact_threshold ?? Infinity, instructions: null, pauses: false };
}
