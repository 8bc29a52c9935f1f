// Schemas of the responses of both batch APIs, as published in openapi.json.
import { z } from 'zod';

const seconds = z.int().nullable();
const time = z.iso.datetime().nullable();

export const batch = z.strictObject({
  id: z.string().regex(/^batch_[0-9a-f]{48}$/),
  object: z.literal('batch'),
  endpoint: z.string(),
  model: z.string().nullable(),
  errors: z
    .strictObject({
      object: z.literal('list'),
      data: z.array(
        z.strictObject({
          code: z.string(),
          message: z.string(),
          param: z.string().nullable(),
          line: z.int().nullable(),
        }),
      ),
    })
    .nullable(),
  input_file_id: z.string(),
  completion_window: z.literal('24h'),
  status: z.enum([
    'validating',
    'failed',
    'in_progress',
    'finalizing',
    'completed',
    'expired',
    'cancelling',
    'cancelled',
  ]),
  output_file_id: z.string().nullable(),
  error_file_id: z.string().nullable(),
  created_at: z.int(),
  in_progress_at: seconds,
  expires_at: z.int(),
  finalizing_at: seconds,
  completed_at: seconds,
  failed_at: seconds,
  expired_at: seconds,
  cancelling_at: seconds,
  cancelled_at: seconds,
  request_counts: z.strictObject({ total: z.int(), completed: z.int(), failed: z.int() }),
  usage: z.strictObject({
    input_tokens: z.int(),
    input_tokens_details: z.strictObject({ cached_tokens: z.int() }),
    output_tokens: z.int(),
    output_tokens_details: z.strictObject({ reasoning_tokens: z.int() }),
    total_tokens: z.int(),
  }),
  metadata: z.record(z.string(), z.string()).nullable(),
});

export const batchList = z.strictObject({
  object: z.literal('list'),
  data: z.array(batch),
  first_id: z.string().nullable(),
  last_id: z.string().nullable(),
  has_more: z.boolean(),
});

export const messageBatch = z.strictObject({
  id: z.string().regex(/^msgbatch_[0-9a-f]{48}$/),
  type: z.literal('message_batch'),
  processing_status: z.enum(['in_progress', 'canceling', 'ended']),
  request_counts: z.strictObject({
    processing: z.int(),
    succeeded: z.int(),
    errored: z.int(),
    canceled: z.int(),
    expired: z.int(),
  }),
  ended_at: time,
  created_at: z.iso.datetime(),
  expires_at: z.iso.datetime(),
  archived_at: z.null(),
  cancel_initiated_at: time,
  results_url: z.string().nullable().meta({ description: 'A path on this server. Null until the batch has ended.' }),
});

export const messageBatchList = z.strictObject({
  data: z.array(messageBatch),
  has_more: z.boolean(),
  first_id: z.string().nullable(),
  last_id: z.string().nullable(),
});

export const messageBatchDeleted = z.strictObject({ id: z.string(), type: z.literal('message_batch_deleted') });

export const messageBatchResult = z.strictObject({
  custom_id: z.string(),
  result: z.discriminatedUnion('type', [
    z.strictObject({
      type: z.literal('succeeded'),
      message: z.looseObject({}),
      headers: z.record(z.string(), z.string()).optional(),
    }),
    z.strictObject({
      type: z.literal('errored'),
      error: z.looseObject({}),
      headers: z.record(z.string(), z.string()).optional(),
    }),
    z.strictObject({ type: z.literal('canceled') }),
    z.strictObject({ type: z.literal('expired') }),
  ]),
});
