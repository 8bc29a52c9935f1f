// Schemas of the `cache` and `replayed_items` fields of prompt-cache diagnostics, used by the Responses and Messages
// formats.
import { z } from 'zod';

const count = () => z.int().min(0);

/** Present only if the server keeps KV pages on disk. */
export const cacheTiers = z.strictObject({
  memory_tokens: count(),
  disk_tokens: count(),
  disk_miss: z
    .strictObject({
      reason: z.enum([
        'never_stored',
        'other_engine',
        'evicted',
        'erased',
        'expired',
        'damaged',
        'below_minimum',
        'no_room',
        'faster_to_compute',
        'model_unknown',
        'unreadable',
      ]),
      at: count().nullable(),
    })
    .nullable(),
});

/** Present only if the prompt has such items. */
export const replayedItems = z.array(z.string().min(1)).min(1);
