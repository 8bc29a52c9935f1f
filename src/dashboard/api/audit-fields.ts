// The audit log's query parameters and CSV file.

import { MAX_AUDIT_ENTRIES } from '../../accounts/audit.js';
import type { AuditFilter, AuditLog } from '../../accounts/audit.js';
import { apiError } from '../../shared/errors.js';
import type { AuditEntry } from '../../shared/wire/organizations.js';
import type { Exchange } from '../../http/exchange.js';
import { csvLine, sendCsv } from './csv.js';
import { readTimes } from './times.js';

const MAX_TEXT = 320; // the longest email address
const CSV_PAGE = 500;

/** `temporary=true` includes entries about temporary API keys. Throws ApiError 400. */
export function readAuditFilter(query: URLSearchParams): AuditFilter {
  const temporary = query.get('temporary') ?? 'false';
  if (temporary !== 'true' && temporary !== 'false')
    throw apiError('invalid_query_parameter', 'temporary must be true or false.', 'temporary');
  return {
    action: text(query, 'action'),
    actor: text(query, 'actor'),
    target: text(query, 'target'),
    ...readTimes(query),
    temporary: temporary === 'true',
  };
}

function text(query: URLSearchParams, name: string): string | null {
  const value = query.get(name)?.trim() ?? '';
  if (value.length > MAX_TEXT)
    throw apiError('invalid_query_parameter', `${name} must be at most ${MAX_TEXT} characters long.`, name);
  return value === '' ? null : value;
}

const COLUMNS = ['at', 'action', 'actor_type', 'actor_id', 'actor_email', 'ip', 'target', 'detail', 'id'] as const;

const line = ({ id, at, actor, action, target, ip, detail }: AuditEntry): string =>
  csvLine(
    {
      at,
      action,
      actor_type: actor.type,
      actor_id: actor.id,
      actor_email: actor.email,
      ip,
      target,
      detail: JSON.stringify(detail),
      id,
    },
    COLUMNS,
  );

/** Sends the matching entries as a CSV file. A null organization means the whole server. */
export async function sendAuditCsv(
  exchange: Exchange,
  audit: Pick<AuditLog, 'list'>,
  organizationId: string | null,
  filter: AuditFilter,
): Promise<void> {
  // The log may exceed its limit slightly before old entries are erased.
  const file = { file: 'audit-log.csv', columns: COLUMNS, rows: 2 * MAX_AUDIT_ENTRIES };
  await sendCsv(exchange, file, async (after: string | null) => {
    const { data, next } = await audit.list(organizationId, CSV_PAGE, after, filter);
    return { lines: data.map(line), next };
  });
}
