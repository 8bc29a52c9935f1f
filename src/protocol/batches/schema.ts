// Request schemas of /v1/batches and /v1/messages/batches.

import { z } from 'zod';
import { integer, metadataField } from '../fields.js';
import { BATCH_ENDPOINTS } from './endpoints.js';

/** Bounds of the lifetime that a client may set for output files, in seconds. */
const MIN_OUTPUT_S = 3_600;
const MAX_OUTPUT_S = 2_592_000;

export const batchSchema = z.object({
  input_file_id: z.string(),
  endpoint: z.enum(BATCH_ENDPOINTS),
  completion_window: z.literal('24h'),
  metadata: metadataField,
  output_expires_after: z
    .object({ anchor: z.literal('created_at'), seconds: integer().min(MIN_OUTPUT_S).max(MAX_OUTPUT_S) })
    .nullish(),
});

export const CUSTOM_ID = /^[a-zA-Z0-9_-]{1,64}$/;

/** `params` is validated when the request runs. */
export const messageBatchSchema = z.object({
  requests: z
    .array(
      z.object({
        custom_id: z.string().meta({ pattern: CUSTOM_ID.source }),
        params: z.looseObject({}).meta({ description: 'A request of POST /v1/messages without stream: true.' }),
      }),
    )
    .min(1),
});
