import type { ReactNode } from 'react';
import type { AuditEntry } from '../../../../shared/wire/organizations.js';
import { ListView, useList } from '../components/list.js';
import { PageHeader, Panel } from '../components/page.js';
import { EmptyState } from '../components/states.js';
import { Table } from '../components/table.js';
import { dateTime } from '../format.js';
import { useOrganization } from '../session.js';

export function AuditLog(): ReactNode {
  const { id, path } = useOrganization();
  const list = useList<AuditEntry>(['organization', id, 'audit-log'], `${path}/audit-log`);
  return (
    <>
      <PageHeader title="Audit log">All changes made in this organization, newest first.</PageHeader>
      <Panel flush>
        <ListView list={list} empty={<EmptyState icon="audit" title="No changes yet" />}>
          {(rows) => (
            <Table
              caption="Audit log"
              rows={rows}
              rowKey={(entry) => entry.id}
              columns={[
                {
                  key: 'action',
                  header: 'Action',
                  heading: true,
                  cell: (entry) => <code className="nowrap">{entry.action}</code>,
                },
                {
                  key: 'at',
                  header: 'When',
                  cell: (entry) => (
                    <time dateTime={entry.at} className="nowrap">
                      {dateTime(entry.at)}
                    </time>
                  ),
                },
                {
                  key: 'actor',
                  header: 'By',
                  cell: (entry) => (
                    <div>
                      <span>{actorOf(entry)}</span>
                      {entry.ip !== null && <span className="cell-sub">{entry.ip}</span>}
                    </div>
                  ),
                },
                {
                  key: 'target',
                  header: 'On',
                  cell: (entry) =>
                    entry.target === null ? (
                      '–'
                    ) : (
                      <code className="clip" title={entry.target}>
                        {entry.target}
                      </code>
                    ),
                },
                { key: 'detail', header: 'Detail', cell: (entry) => <Detail detail={entry.detail} /> },
              ]}
            />
          )}
        </ListView>
      </Panel>
    </>
  );
}

function actorOf({ actor }: AuditEntry): string {
  if (actor.type === 'operator_api') return 'Operator API';
  if (actor.type === 'command_line') return 'Command line';
  return actor.email ?? actor.id ?? 'User';
}

function Detail({ detail }: { detail: AuditEntry['detail'] }): ReactNode {
  const entries = Object.entries(detail);
  if (entries.length === 0) return <span className="muted">–</span>;
  return (
    <ul className="pairs">
      {entries.map(([name, value]) => (
        <li key={name}>
          <span className="muted">{name.replaceAll('_', ' ')}</span> {textOf(value)}
        </li>
      ))}
    </ul>
  );
}

function textOf(value: unknown): string {
  if (typeof value === 'string') return value;
  return Array.isArray(value) ? value.map(textOf).join(', ') : JSON.stringify(value);
}
