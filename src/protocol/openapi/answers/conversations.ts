// Schemas of the responses of the conversations API, as published in openapi.json.
import { z } from 'zod';

const id = z.string().regex(/^conv_[0-9a-f]{48}$/);

export const conversation = z.strictObject({
  id,
  object: z.literal('conversation'),
  created_at: z.int(),
  metadata: z.record(z.string(), z.string()),
});
export const conversationDeleted = z.strictObject({
  id,
  object: z.literal('conversation.deleted'),
  deleted: z.literal(true),
});
export const conversationItem = z.looseObject({ id: z.string(), type: z.string() });
