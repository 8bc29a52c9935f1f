// Converts a data directory's conversations, stored chat completions, files, uploads, batches and webhooks to rows of
// the shared database. Data that is being erased is not converted.

import { itemKey } from '../storage/response-parts.js';
import type { ItemRow } from '../storage/response-parts.js';
import { itemSize } from '../storage/response-size.js';
import type { Batch, LineOutcome } from '../storage/batch-store.js';
import type { Segment } from '../storage/files/segments.js';
import type { StoredFile } from '../storage/file-store.js';
import type { StoredUpload } from '../storage/upload-store.js';
import type { Store } from '../storage/store.js';
import type { Endpoint, Job } from '../webhooks/webhook-store.js';
import { columns, json, part } from './lmdb-import-part.js';
import type { Part } from './postgres-import-parts.js';

/** Number of rows that are read back at a time from tables with rows of up to several megabytes. */
const FEW = 8;

interface Conversation {
  organizationId: string;
  createdAt: number;
  usedAt: number;
  metadata: object;
  next: number;
  count: number;
  size: number;
}

interface Completion {
  model: string;
  createdAt: number;
  metadata: object;
  size: number;
  messages: number;
}

/** The parts, in import order: rows come after the rows to which they refer. */
export function lmdbContentParts(store: Store): Part[] {
  return [
    ...conversationParts(store),
    ...completionParts(store),
    ...fileParts(store),
    ...batchParts(store),
    ...webhookParts(store),
  ];
}

function conversationParts(store: Store): Part[] {
  const heads = store.table<Conversation>('conversations');
  const images = store.table<Uint8Array>('conversation-images');
  return [
    part<Conversation>(store, {
      from: 'conversations',
      table: 'conversations',
      all: columns('id organization created_at:bigint used_at:bigint metadata next:integer items:integer size:bigint'),
      row: (one, key) => [
        String(key),
        one.organizationId,
        one.createdAt,
        one.usedAt,
        json(one.metadata),
        one.next,
        one.count,
        one.size,
      ],
    }),
    part<ItemRow & { output?: true }>(store, {
      from: 'conversation-items',
      table: 'conversation_items',
      all: columns('conversation_id position:integer item_key row images:bytea[] size:bigint repeats:boolean'),
      row: ({ id, item, images: count, repeats, output }, key) => {
        const [conversation, position] = key as [string, number];
        if (heads.get(conversation) === undefined) return null;
        const bytes = Array.from(
          { length: count },
          (_, at) => images.get([conversation, position, at]) ?? new Uint8Array(),
        );
        return [
          conversation,
          position,
          itemKey(id),
          json({ id, item, ...(output === true ? { output } : {}) }),
          byteArrays(bytes),
          itemSize(item),
          repeats === true,
        ];
      },
      more: { readRows: FEW },
    }),
  ];
}

/** Returns the text of a value of type bytea[], as PostgreSQL writes it. */
const byteArrays = (all: readonly Uint8Array[]): string =>
  `{${all.map((bytes) => `"\\\\x${Buffer.from(bytes).toString('hex')}"`).join(',')}}`;

function completionParts(store: Store): Part[] {
  const texts = store.table<string>('chat-completion-texts');
  const ids = new Set([...store.table('chat-completions').keys()].map((key) => (key as [string, string])[1]));
  return [
    part<Completion>(store, {
      from: 'chat-completions',
      table: 'chat_completions',
      all: columns('id organization model created_at:bigint metadata body size:bigint messages:integer'),
      row: ({ model, createdAt, metadata, size, messages }, key) => {
        const [organization, id] = key as [string, string];
        return [id, organization, model, createdAt, json(metadata), texts.get([id, 0]) ?? '{}', size, messages];
      },
      more: { readRows: FEW },
    }),
    part<string>(store, {
      from: 'chat-completion-texts',
      table: 'chat_completion_messages',
      all: columns('completion_id index:integer message'),
      row: (message, key) => {
        const [id, index] = key as [string, number];
        return index === 0 || !ids.has(id) ? null : [id, index - 1, message];
      },
      more: { readRows: FEW },
    }),
  ];
}

function fileParts(store: Store): Part[] {
  const contents = store.table('file-contents');
  const files = store.table('files');
  const uploads = store.table('uploads');
  return [
    part<{ organizationId: string; bytes: number; deadline: number | null }>(store, {
      from: 'file-contents',
      table: 'file_contents',
      all: columns('id organization bytes:bigint deadline:bigint'),
      row: ({ organizationId, bytes, deadline }, key) => [String(key), organizationId, bytes, deadline],
    }),
    part<Uint8Array>(store, {
      from: 'file-rows',
      table: 'file_rows',
      all: columns('contents_id position:integer data:bytea'),
      row: (data, key) => {
        const [id, position] = key as [string, number];
        return contents.get(id) === undefined ? null : [id, position, data];
      },
      more: { readRows: FEW },
    }),
    part<number>(store, {
      from: 'file-sizes',
      table: 'file_sizes',
      all: columns('organization bytes:bigint'),
      row: (bytes, key) => (key === '*' ? null : [String(key), bytes]), // '*' is the sum of all organizations
    }),
    part<Omit<StoredFile, 'id'> & { segments: readonly Segment[]; deleted?: true }>(store, {
      from: 'files',
      table: 'files',
      all: columns(
        'id organization purpose filename media_type bytes:bigint created_at:bigint expires_at:bigint segments deleted:boolean',
      ),
      row: (one, key) => [
        String(key),
        one.organizationId,
        one.purpose,
        one.filename,
        one.mediaType,
        one.bytes,
        one.createdAt,
        one.expiresAt,
        json(one.segments),
        one.deleted === true,
      ],
    }),
    part<[]>(store, {
      from: 'file-holds',
      table: 'file_holds',
      all: columns('file_id holder'),
      row: (_, key) => (files.get((key as string[])[0] ?? '') === undefined ? null : (key as string[])),
    }),
    part<Omit<StoredUpload, 'id'>>(store, {
      from: 'uploads',
      table: 'uploads',
      all: columns(
        'id organization purpose filename media_type bytes:bigint created_at:bigint expires_at:bigint file_lifetime:bigint status file_id',
      ),
      row: (one, key) => [
        String(key),
        one.organizationId,
        one.purpose,
        one.filename,
        one.mediaType,
        one.bytes,
        one.createdAt,
        one.expiresAt,
        one.fileLifetimeS,
        one.status,
        one.fileId,
      ],
    }),
    part<{ bytes: number; createdAt: number }>(store, {
      from: 'upload-parts',
      table: 'upload_parts',
      all: columns('upload_id id bytes:bigint created_at:bigint'),
      row: ({ bytes, createdAt }, key) => {
        const [upload = '', id] = key as string[];
        return uploads.get(upload) === undefined ? null : [upload, id, bytes, createdAt];
      },
    }),
  ];
}

function batchParts(store: Store): Part[] {
  const batches = store.table('batches');
  const leases = store.table<{ owner: string; until: number; lost: number }>('batch-queue');
  const lineColumns = 'batch_id line:integer custom_id body lease_until:bigint lost:integer outcome result';
  return [
    part<{ batch: Batch }>(store, {
      from: 'batches',
      table: 'batches',
      all: columns('id organization kind phase created_at:bigint expires_at:bigint ended_at:bigint data'),
      row: ({ batch }) => [
        batch.id,
        batch.organizationId,
        batch.kind,
        batch.phase,
        batch.createdAt,
        batch.expiresAt,
        batch.endedAt,
        json(batch),
      ],
      more: { readRows: 500 },
    }),
    // The process that has claimed a line uses the data directory, so its leases do not apply to the shared database.
    part<{ customId: string; body: string }>(store, {
      from: 'batch-lines',
      table: 'batch_lines',
      all: columns(lineColumns),
      row: ({ customId, body }, key) => {
        const [id, line] = key as [string, number];
        if (batches.get(id) === undefined) return null;
        const { owner = '', until = 0, lost = 0 } = leases.get(key) ?? {};
        return owner === ''
          ? [id, line, customId, body, until, lost, null, '']
          : [id, line, customId, body, 0, lost + 1, null, ''];
      },
      more: { where: 'outcome IS NULL', readRows: FEW },
    }),
    part<{ customId: string; outcome: LineOutcome; text: string }>(store, {
      from: 'batch-results',
      table: 'batch_lines',
      all: columns(lineColumns),
      row: ({ customId, outcome, text }, key) => {
        const [id, line] = key as [string, number];
        return batches.get(id) === undefined ? null : [id, line, customId, '', 0, 0, outcome, text];
      },
      more: { where: 'outcome IS NOT NULL', readRows: FEW },
    }),
  ];
}

function webhookParts(store: Store): Part[] {
  return [
    part<Endpoint>(store, {
      from: 'webhook-endpoints',
      table: 'webhook_endpoints',
      all: columns('organization id created_at:bigint record'),
      row: (one) => [one.organizationId, one.id, one.createdAt, json(one)],
    }),
    part<Job>(store, {
      from: 'webhook-jobs',
      table: 'webhook_jobs',
      all: columns('id organization endpoint created_at:bigint due_at:bigint record'),
      row: (one) => [one.id, one.organizationId, one.endpointId, one.createdAt, one.dueAt, json(one)],
    }),
  ];
}
