// Routes …/files: list, download and delete an organization's files.

import { apiError } from '../../shared/errors.js';
import { isFileId } from '../../shared/ids.js';
import type { FileListItem } from '../../shared/wire/files.js';
import type { ListPage } from '../../shared/wire/list.js';
import { setAttachment } from '../../http/attachment.js';
import type { Route } from '../../http/exchange.js';
import type { FileStore, StoredFile } from '../../storage/file-store.js';
import type { AuditLog } from '../../accounts/audit.js';
import type { Guard } from './guard.js';
import { readPage } from './paging.js';

const LIST = '/organizations/:org/files';
const ONE = `${LIST}/:id`;

export interface DashboardFileDeps {
  guard: Guard;
  files: Pick<FileStore, 'get' | 'list' | 'read' | 'delete'>;
  audit: AuditLog;
}

export function dashboardFileRoutes({ guard, files, audit }: DashboardFileDeps): Route[] {
  return [
    guard.member('developer', {
      method: 'GET',
      path: LIST,
      handler: async ({ exchange, organization }) => {
        const { limit, after } = readPage(exchange.query);
        if (after !== null && !isFileId(after))
          throw apiError('invalid_query_parameter', 'after must be the `next` value of the previous page.', 'after');
        const page = await files.list(organization.id, { newestFirst: true, after, limit });
        const data = page.files.map(shown);
        const next = page.more ? (data.at(-1)?.id ?? null) : null;
        const list: ListPage<FileListItem> = { object: 'list', data, has_more: next !== null, next };
        exchange.json(200, list);
      },
    }),

    guard.member('developer', {
      method: 'GET',
      path: `${ONE}/content`,
      noted: true,
      handler: async ({ exchange, organization, actor }) => {
        const file = await files.get(organization.id, exchange.params['id'] as string);
        if (file === null) throw notFound();
        await audit.note(organization.id, actor, 'file.downloaded', file.id, { filename: file.filename });
        setAttachment(exchange, file.filename);
        await exchange.streamed(200, file.mediaType, file.bytes, files.read(organization.id, file.id));
      },
    }),

    guard.member('developer', {
      method: 'DELETE',
      path: ONE,
      handler: async ({ exchange, organization, actor }) => {
        const id = exchange.params['id'] as string;
        const file = await files.get(organization.id, id);
        if (file === null || !(await files.delete(organization.id, id))) throw notFound();
        await audit.note(organization.id, actor, 'file.deleted', id, { filename: file.filename });
        exchange.json(200, {});
      },
    }),
  ];
}

const notFound = (): Error => apiError('file_not_found', 'File not found.', 'id');

const time = (seconds: number): string => new Date(seconds * 1_000).toISOString();

const shown = ({ id, filename, purpose, mediaType, bytes, createdAt, expiresAt }: StoredFile): FileListItem => ({
  id,
  filename,
  purpose,
  media_type: mediaType,
  bytes,
  created_at: time(createdAt),
  expires_at: time(expiresAt),
});
