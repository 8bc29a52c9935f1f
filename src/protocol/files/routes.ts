// Routes under /v1/files, in the formats of OpenAI's and Anthropic's APIs. The headers of a request determine the
// format (see errorFormatOf()). These requests do not count toward the rate limits for generation. Event-loop thread
// only.

import type { Exchange, Route } from '../../http/exchange.js';
import { setAttachment } from '../../http/attachment.js';
import { errorFormatOf } from '../../http/error-format.js';
import { fileNotFound } from '../../storage/file-store.js';
import type { FileStore, StoredFile } from '../../storage/file-store.js';
import { nameIgnored } from '../ignored.js';
import type { FileDeps } from './deps.js';
import {
  checkExpiresAfter,
  checkFilename,
  checkPurpose,
  checkSeconds,
  expiryOf,
  MAX_MESSAGES_LIFETIME_S,
  mediaTypeOf,
} from './fields.js';
import { readForm } from './form.js';
import { readFileQuery, readMessagesFileQuery } from './paging.js';
import { fileMetadata, fileObject } from './shapes.js';
import { uploadRoutes } from './upload-routes.js';

const FILES = '/v1/files';

export function fileRoutes(deps: FileDeps): Route[] {
  const { files } = deps;
  return [
    {
      method: 'POST',
      path: FILES,
      scope: 'files.write',
      streamsBody: true,
      handler: (exchange) => upload(deps, exchange),
    },
    { method: 'GET', path: FILES, scope: 'files.read', handler: (exchange) => list(files, exchange) },
    {
      method: 'GET',
      path: `${FILES}/:id`,
      scope: 'files.read',
      async handler(exchange) {
        exchange.json(200, shown(exchange, await found(files, exchange)));
      },
    },
    {
      method: 'GET',
      path: `${FILES}/:id/content`,
      scope: 'files.read',
      async handler(exchange) {
        const { id, organizationId, bytes, mediaType, filename } = await found(files, exchange);
        setAttachment(exchange, filename);
        await exchange.streamed(200, mediaType, bytes, files.read(organizationId, id));
      },
    },
    {
      method: 'DELETE',
      path: `${FILES}/:id`,
      scope: 'files.write',
      async handler(exchange) {
        const id = exchange.params['id'] ?? '';
        if (!(await files.delete(exchange.identity.organizationId, id))) throw fileNotFound(id);
        exchange.json(200, isMessages(exchange) ? { id, type: 'file_deleted' } : { id, object: 'file', deleted: true });
      },
    },
    ...uploadRoutes(deps),
  ];
}

async function upload({ files, settings, now }: FileDeps, exchange: Exchange): Promise<void> {
  const { organizationId } = exchange.identity;
  const writer = files.create(organizationId);
  const form = await readForm(exchange, 'file', writer);
  try {
    const { fields, file } = form;
    const filename = checkFilename(file.filename ?? '');
    const messages = isMessages(exchange);
    const seconds = fields.get('expires_in_seconds');
    const lifetimeS = !messages
      ? checkExpiresAfter(fields)
      : seconds === undefined
        ? null
        : checkSeconds(seconds, 'expires_in_seconds', MAX_MESSAGES_LIFETIME_S);
    const purpose = messages ? (fields.get('purpose') ?? 'user_data') : fields.get('purpose');
    const known = messages ? MESSAGES_FIELDS : FIELDS;
    nameIgnored({ parameters: [...fields.keys()].filter((name) => !known.includes(name)) }, exchange);
    const createdAt = Math.floor(now());
    const stored = await writer.finish({
      purpose: checkPurpose(purpose),
      filename,
      mediaType: mediaTypeOf(file.mediaType, filename),
      createdAt,
      expiresAt: expiryOf(createdAt, lifetimeS, settings.retention_days),
    });
    exchange.json(200, shown(exchange, stored));
  } catch (error) {
    await writer.discard();
    throw error;
  }
}

/** Form fields that have an effect in OpenAI's and in Anthropic's format. Other fields are reported as ignored. */
const FIELDS = ['purpose', 'expires_after[anchor]', 'expires_after[seconds]'];
const MESSAGES_FIELDS = ['purpose', 'expires_in_seconds'];

async function list(files: FileStore, exchange: Exchange): Promise<void> {
  const { organizationId } = exchange.identity;
  if (!isMessages(exchange)) {
    const page = await files.list(organizationId, readFileQuery(exchange.query));
    exchange.jsonEnqueued(page.files.length * SHOWN_BYTES, 200, {
      object: 'list',
      data: page.files.map(fileObject),
      first_id: page.files[0]?.id ?? null,
      last_id: page.files.at(-1)?.id ?? null,
      has_more: page.more,
    });
    return;
  }
  const query = readMessagesFileQuery(exchange.query);
  const page =
    query.ids === null
      ? await files.list(organizationId, query)
      : {
          files: (await Promise.all(query.ids.map((id) => files.get(organizationId, id)))).filter(
            (file) => file !== null,
          ),
          more: false,
        };
  const shownFiles = query.isBackwards ? page.files.toReversed() : page.files;
  exchange.jsonEnqueued(shownFiles.length * SHOWN_BYTES, 200, {
    data: shownFiles.map(fileMetadata),
    first_id: shownFiles[0]?.id ?? null,
    last_id: shownFiles.at(-1)?.id ?? null,
    has_more: page.more,
    next_page: page.more && !query.isBackwards ? (shownFiles.at(-1)?.id ?? null) : null,
  });
}

/** Approximate size of one file's entry in a list, in bytes. */
const SHOWN_BYTES = 300;

async function found(files: FileStore, exchange: Exchange): Promise<StoredFile> {
  const id = exchange.params['id'] ?? '';
  const file = await files.get(exchange.identity.organizationId, id);
  if (file === null) throw fileNotFound(id);
  return file;
}

const isMessages = (exchange: Exchange): boolean =>
  errorFormatOf(FILES, (name) => exchange.header(name)) === 'messages';

const shown = (exchange: Exchange, file: StoredFile): object =>
  isMessages(exchange) ? fileMetadata(file) : fileObject(file);
