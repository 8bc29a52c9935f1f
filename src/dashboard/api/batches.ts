// Routes …/batches: list and cancel an organization's batches.

import { apiError } from '../../shared/errors.js';
import { isBatchId } from '../../shared/ids.js';
import { BATCH_KINDS, type BatchListItem } from '../../shared/wire/files.js';
import type { ListPage } from '../../shared/wire/list.js';
import type { Route } from '../../http/exchange.js';
import { batchState } from '../../protocol/batches/openai-shape.js';
import type { Batch, BatchKind, BatchStore } from '../../storage/batch-store.js';
import type { FileStore } from '../../storage/file-store.js';
import type { AuditLog } from '../../accounts/audit.js';
import type { Guard } from './guard.js';
import { readPage } from './paging.js';

const LIST = '/organizations/:org/batches';

export interface DashboardBatchDeps {
  guard: Guard;
  batches: Pick<BatchStore, 'get' | 'list' | 'cancel'>;
  files: Pick<FileStore, 'get'>;
  audit: AuditLog;
  /** Notifies the batch runner that there may be work. */
  wakeBatches: () => void;
}

export function dashboardBatchRoutes({ guard, batches, files, audit, wakeBatches }: DashboardBatchDeps): Route[] {
  const shown = async (batch: Batch): Promise<BatchListItem> => {
    const existing = async (id: string | null): Promise<string | null> =>
      id !== null && (await files.get(batch.organizationId, id)) !== null ? id : null;
    const [input, output, error] = await Promise.all(
      [batch.inputFileId, batch.outputFileId, batch.errorFileId].map(existing),
    );
    const [problem] = batch.problems;
    return {
      id: batch.id,
      kind: batch.kind,
      endpoint: batch.endpoint,
      model: batch.model,
      status: batchState(batch),
      total: batch.total,
      counts: batch.counts,
      created_at: time(batch.createdAt),
      expires_at: time(batch.expiresAt),
      ended_at: batch.endedAt === null ? null : time(batch.endedAt),
      input_file_id: input ?? null,
      output_file_id: output ?? null,
      error_file_id: error ?? null,
      problem:
        problem === undefined ? null : `${problem.line === null ? '' : `Line ${problem.line}: `}${problem.message}`,
    };
  };
  return [
    guard.member('developer', {
      method: 'GET',
      path: LIST,
      handler: async ({ exchange, organization }) => {
        const { limit, after } = readPage(exchange.query);
        const kind = readKind(exchange.query.get('kind'));
        if (after !== null && !isBatchId(after))
          throw apiError('invalid_query_parameter', 'after must be the `next` value of the previous page.', 'after');
        const page = await batches.list(organization.id, kind, { after, limit });
        const data = await Promise.all(page.batches.map(shown));
        const next = page.more ? (data.at(-1)?.id ?? null) : null;
        const list: ListPage<BatchListItem> = { object: 'list', data, has_more: next !== null, next };
        exchange.json(200, list);
      },
    }),

    guard.member('developer', {
      method: 'POST',
      path: `${LIST}/:id/cancel`,
      handler: async ({ exchange, organization, actor }) => {
        const id = exchange.params['id'] as string;
        const before = await batches.get(organization.id, id);
        if (before === null) throw apiError('batch_not_found', 'Batch not found.', 'id');
        const batch = await batches.cancel(organization.id, id);
        if (batch === null) throw apiError('batch_not_found', 'Batch not found.', 'id');
        if (batch.phase === 'ended') throw apiError('batch_not_cancellable', 'The batch has already finished.', 'id');
        const wasOpen = before.phase === 'validating' || before.phase === 'running';
        if (wasOpen && batch.ending === 'cancelled') await audit.note(organization.id, actor, 'batch.cancelled', id);
        wakeBatches();
        exchange.json(200, await shown(batch));
      },
    }),
  ];
}

function readKind(text: string | null): BatchKind {
  const kind = BATCH_KINDS.find((one) => one === (text ?? 'openai'));
  if (kind === undefined)
    throw apiError('invalid_query_parameter', `kind must be one of ${BATCH_KINDS.join(', ')}.`, 'kind');
  return kind;
}

const time = (ms: number): string => new Date(ms).toISOString();
