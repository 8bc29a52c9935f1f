// Schemas of the responses of the files and uploads APIs, as published in openapi.json.
import { z } from 'zod';

const id = z.string().regex(/^file-[0-9a-f]{48}$/);

export const file = z.strictObject({
  id,
  object: z.literal('file'),
  bytes: z.int(),
  created_at: z.int(),
  expires_at: z.int(),
  filename: z.string(),
  purpose: z.string(),
  status: z.literal('processed'),
});
export const fileList = z.strictObject({
  object: z.literal('list'),
  data: z.array(file),
  first_id: z.string().nullable(),
  last_id: z.string().nullable(),
  has_more: z.boolean(),
});
export const fileDeleted = z.strictObject({ id, object: z.literal('file'), deleted: z.literal(true) });

export const messagesFile = z.strictObject({
  id,
  type: z.literal('file'),
  filename: z.string(),
  mime_type: z.string(),
  size_bytes: z.int(),
  created_at: z.string(),
  expires_at: z.string(),
  downloadable: z.literal(true),
});
export const messagesFileList = z.strictObject({
  data: z.array(messagesFile),
  first_id: z.string().nullable(),
  last_id: z.string().nullable(),
  has_more: z.boolean(),
  next_page: z.string().nullable(),
});
export const messagesFileDeleted = z.strictObject({ id, type: z.literal('file_deleted') });

export const upload = z.strictObject({
  id: z.string(),
  object: z.literal('upload'),
  bytes: z.int(),
  created_at: z.int(),
  expires_at: z.int(),
  filename: z.string(),
  purpose: z.string(),
  status: z.enum(['pending', 'completed', 'cancelled', 'expired']),
  file: file.nullable(),
});
export const uploadPart = z.strictObject({
  id: z.string(),
  object: z.literal('upload.part'),
  created_at: z.int(),
  upload_id: z.string(),
});
