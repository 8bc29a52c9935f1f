// Routes under /v1/uploads, which upload a file in parts, as in OpenAI's API. Event-loop thread only.

import { createHash } from 'node:crypto';
import { z } from 'zod';
import { apiError } from '../../shared/errors.js';
import type { ApiError } from '../../shared/errors.js';
import { newUploadId } from '../../shared/ids.js';
import type { Exchange, Route } from '../../http/exchange.js';
import { fileTooLarge } from '../../storage/file-store.js';
import { MAX_PARTS, uploadNotPending } from '../../storage/upload-store.js';
import type { StoredUpload, UploadPart, UploadStore } from '../../storage/upload-store.js';
import { nameIgnored } from '../ignored.js';
import { ineffectiveInFiles } from '../ineffective.js';
import { validated } from '../validation.js';
import { checkAnchor, checkFilename, checkLifetime, checkPurpose, expiryOf, mediaTypeOf } from './fields.js';
import { readForm } from './form.js';
import type { FileDeps } from './deps.js';
import { partObject, uploadObject } from './shapes.js';

const PATH = '/v1/uploads';

export const uploadSchema = z.object({
  bytes: z.int().min(0),
  filename: z.string().min(1),
  mime_type: z.string().min(1),
  purpose: z.string(),
  expires_after: z.object({ anchor: z.string(), seconds: z.int() }).nullish(),
});
export const completeSchema = z.object({
  part_ids: z.array(z.string()).max(MAX_PARTS),
  md5: z.string().nullish(),
});

export function uploadRoutes(deps: FileDeps): Route[] {
  const { uploads } = deps;
  return [
    { method: 'POST', path: PATH, scope: 'files.write', handler: (exchange) => create(deps, exchange) },
    {
      method: 'POST',
      path: `${PATH}/:id/parts`,
      scope: 'files.write',
      streamsBody: true,
      handler: (exchange) => addPart(uploads, exchange),
    },
    {
      method: 'POST',
      path: `${PATH}/:id/complete`,
      scope: 'files.write',
      handler: (exchange) => complete(deps, exchange),
    },
    {
      method: 'POST',
      path: `${PATH}/:id/cancel`,
      scope: 'files.write',
      bodyOptional: true,
      async handler(exchange) {
        exchange.json(200, uploadObject(await uploads.cancel(await found(uploads, exchange)), null));
      },
    },
  ];
}

async function create({ uploads, settings, now }: FileDeps, exchange: Exchange): Promise<void> {
  const given = body(exchange, uploadSchema);
  if (given.bytes > settings.max_bytes) throw fileTooLarge(settings.max_bytes);
  const filename = checkFilename(given.filename, 'filename');
  if (given.expires_after != null) checkAnchor(given.expires_after.anchor);
  const upload = await uploads.create({
    id: newUploadId(),
    organizationId: exchange.identity.organizationId,
    purpose: checkPurpose(given.purpose),
    filename,
    mediaType: mediaTypeOf(given.mime_type.toLowerCase(), filename),
    bytes: given.bytes,
    createdAt: Math.floor(now()),
    fileLifetimeS:
      given.expires_after == null ? null : checkLifetime(given.expires_after.seconds, 'expires_after.seconds'),
  });
  exchange.json(200, uploadObject(upload, null));
}

async function addPart(uploads: UploadStore, exchange: Exchange): Promise<void> {
  const upload = await found(uploads, exchange);
  if (upload.status !== 'pending') throw uploadNotPending(upload.status);
  const writer = uploads.addPart(upload);
  const { fields } = await readForm(exchange, 'data', writer);
  nameIgnored({ parameters: [...fields.keys()] }, exchange);
  exchange.json(200, partObject(upload.id, await writer.finish()));
}

async function complete({ uploads, settings, now }: FileDeps, exchange: Exchange): Promise<void> {
  const { part_ids: ids, md5 } = body(exchange, completeSchema);
  const upload = await found(uploads, exchange);
  if (upload.status !== 'pending') throw uploadNotPending(upload.status);
  const parts = inOrder(await uploads.parts(upload), ids);
  const bytes = parts.reduce((sum, part) => sum + part.bytes, 0);
  if (bytes !== upload.bytes)
    throw apiError(
      'invalid_value',
      `The parts have ${bytes} bytes in total; the upload was created with bytes = ${upload.bytes}.`,
      'part_ids',
    );
  if (md5 != null) await checkMd5(uploads, parts, md5, exchange);
  const { purpose, filename, mediaType, fileLifetimeS } = upload;
  const createdAt = Math.floor(now());
  const expiresAt = expiryOf(createdAt, fileLifetimeS, settings.retention_days);
  const file = await uploads.complete(upload, parts, { purpose, filename, mediaType, createdAt, expiresAt });
  exchange.json(200, uploadObject({ ...upload, status: 'completed' }, file));
}

function inOrder(parts: readonly UploadPart[], ids: readonly string[]): UploadPart[] {
  const known = new Map(parts.map((part) => [part.id, part]));
  return ids.map((id, index) => {
    const part = known.get(id);
    known.delete(id);
    if (part === undefined)
      throw apiError(
        'invalid_value',
        `part_ids[${index}] is not a part of this upload, or is listed twice.`,
        `part_ids[${index}]`,
      );
    return part;
  });
}

async function checkMd5(
  uploads: UploadStore,
  parts: readonly UploadPart[],
  expected: string,
  exchange: Exchange,
): Promise<void> {
  const hash = createHash('md5');
  for await (const bytes of uploads.read(parts)) {
    if (exchange.aborted) return;
    exchange.charged(bytes.length, () => hash.update(bytes));
  }
  const digest = hash.digest();
  if (![digest.toString('hex'), digest.toString('base64')].includes(expected))
    throw apiError('invalid_value', "md5 does not match the parts' contents.", 'md5');
}

function body<T>(exchange: Exchange, schema: z.ZodType<T>): T {
  const given = (exchange.body ?? {}) as Readonly<Record<string, unknown>>;
  const valid = validated(schema, given);
  nameIgnored({ parameters: ineffectiveInFiles(schema, given) }, exchange);
  return valid;
}

async function found(uploads: UploadStore, exchange: Exchange): Promise<StoredUpload> {
  const id = exchange.params['id'] ?? '';
  const upload = await uploads.get(exchange.identity.organizationId, id);
  if (upload === null) throw uploadNotFound(id);
  return upload;
}

const uploadNotFound = (id: string): ApiError =>
  apiError('upload_not_found', `No upload found with id ${JSON.stringify(id.slice(0, 64))}.`, 'upload_id');
