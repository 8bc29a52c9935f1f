import { useQueryClient } from '@tanstack/react-query';
import { useEffect, useState } from 'react';
import type { ReactNode } from 'react';
import { useLocation, useSearch } from 'wouter';
import type { ApiKeyObject, CreatedApiKey } from '../../../../shared/wire/api-keys.js';
import { api } from '../api.js';
import { Badge } from '../components/badge.js';
import { Button } from '../components/button.js';
import { ConfirmDialog } from '../components/dialog.js';
import { Icon } from '../components/icon.js';
import { ListView, useList } from '../components/list.js';
import { Code, PageHeader, Panel, Time } from '../components/page.js';
import { EmptyState } from '../components/states.js';
import { Table } from '../components/table.js';
import { Segmented } from '../components/tabs.js';
import { useToast } from '../components/toasts.js';
import { dateTime, keyHint, plural } from '../format.js';
import { useServiceAccounts } from '../queries.js';
import { useMe, useOrganization } from '../session.js';
import { KeyDialog, SCOPES } from './key-dialog.js';
import { KeySecretDialog } from './key-secret-dialog.js';
import { RotateKeyDialog } from './rotate-key-dialog.js';

type Open =
  | { kind: 'create' }
  | { kind: 'edit' | 'rotate' | 'revoke'; key: ApiKeyObject }
  | { kind: 'secret'; key: CreatedApiKey; rotated: boolean }
  | null;

export function Keys(): ReactNode {
  const { id, path, may, status } = useOrganization();
  const { user } = useMe();
  const client = useQueryClient();
  const toast = useToast();
  const search = new URLSearchParams(useSearch());
  const [, navigate] = useLocation();
  const asked = search.has('create');
  const wanted = search.get('key');
  const mayCreate = may('developer') && status === 'active';
  const [open, setOpen] = useState<Open>(null);
  const [shown, setShown] = useState<'active' | 'all'>(wanted === null ? 'active' : 'all');
  const list = useList<ApiKeyObject>(['organization', id, 'api-keys', 'list'], `${path}/api-keys`, {}, 100);
  const close = (): void => {
    setOpen(null);
    if (asked || wanted !== null) navigate('/keys', { replace: true });
  };
  const mayChange = (key: ApiKeyObject): boolean =>
    status === 'active' &&
    key.status !== 'revoked' &&
    (may('admin') || (may('developer') && key.created_by === user.id));
  // Links from other pages: `?create` opens the form, `?key=` opens a key.
  const isWanted = (key: ApiKeyObject): boolean => key.id === wanted;
  const found = wanted === null ? undefined : list.rows.find(isWanted);
  useEffect(() => {
    if (asked && mayCreate) setOpen({ kind: 'create' });
    else if (found !== undefined && mayChange(found)) setOpen({ kind: 'edit', key: found });
    // Opens once per link; later changes must not open it again.
    // eslint-disable-next-line react-hooks/exhaustive-deps
  }, [asked, found?.id]);
  const accounts = useServiceAccounts();
  /** Name of the service account that owns a key. */
  const accountOf = ({ created_by: owner }: ApiKeyObject): string | undefined =>
    accounts.data?.find((one) => one.id === owner)?.name;
  const changed = (): void => {
    void client.invalidateQueries({ queryKey: ['organization', id, 'api-keys'] });
  };
  const revoke = async (key: ApiKeyObject): Promise<void> => {
    await api.delete(`${path}/api-keys/${key.id}`);
    toast(`${key.name} revoked`);
    changed();
  };
  const create = mayCreate ? (
    <Button variant="primary" onClick={() => setOpen({ kind: 'create' })}>
      <Icon name="plus" /> Create key
    </Button>
  ) : undefined;
  return (
    <>
      <PageHeader title="API keys" actions={create}>
        Programs authenticate with an API key. A key acts on behalf of the organization and is limited to the models and
        permissions you choose.
      </PageHeader>
      <Panel flush>
        <ListView
          list={list}
          empty={
            <EmptyState icon="keys" title="No API keys yet" action={create}>
              {mayCreate
                ? 'Create one to send your first request. Its secret is shown only once.'
                : status === 'suspended'
                  ? 'No keys can be created while the organization is suspended.'
                  : 'Ask a developer in your organization to create one.'}
            </EmptyState>
          }
        >
          {(all) => {
            const rows = shown === 'all' ? all : all.filter((key) => key.status === 'active');
            const hidden = all.length - all.filter((key) => key.status === 'active').length;
            return (
              <>
                {hidden > 0 && (
                  <div className="panel-bar">
                    <Segmented
                      label="Keys shown"
                      value={shown}
                      onChange={setShown}
                      options={[
                        { value: 'active', label: 'Active' },
                        { value: 'all', label: `All (${all.length})` },
                      ]}
                    />
                  </div>
                )}
                {rows.length === 0 ? (
                  <EmptyState icon="keys" title="No active keys" action={create}>
                    {plural(hidden, 'key')} expired or revoked.
                  </EmptyState>
                ) : (
                  <Table
                    caption="API keys"
                    rows={rows}
                    rowKey={(key) => key.id}
                    rowClass={(key) => (isWanted(key) ? 'wanted' : key.status === 'active' ? undefined : 'dim')}
                    columns={[
                      {
                        key: 'name',
                        header: 'Name',
                        heading: true,
                        cell: (key) => (
                          <>
                            <span className="cell-main">{key.name}</span>
                            <span className="cell-sub">
                              <code>{keyHint(key)}</code>
                              {accountOf(key) !== undefined && ` · ${accountOf(key)}`}
                            </span>
                          </>
                        ),
                      },
                      { key: 'status', header: 'Status', cell: (key) => <KeyStatus apiKey={key} /> },
                      { key: 'models', header: 'Models', cell: (key) => <KeyScope apiKey={key} /> },
                      { key: 'used', header: 'Last used', cell: (key) => <Time at={key.last_used_at} /> },
                      { key: 'expires', header: 'Expires', cell: (key) => <Time at={key.expires_at} /> },
                      { key: 'created', header: 'Created', cell: (key) => <Time at={key.created_at} /> },
                      {
                        key: 'actions',
                        header: 'Actions',
                        actions: true,
                        cell: (key) =>
                          mayChange(key) ? (
                            <span className="row-actions">
                              <button
                                type="button"
                                className="icon-button"
                                aria-label={`Edit ${key.name}`}
                                title="Edit"
                                onClick={() => setOpen({ kind: 'edit', key })}
                              >
                                <Icon name="edit" />
                              </button>
                              {key.status === 'active' && (
                                <button
                                  type="button"
                                  className="icon-button"
                                  aria-label={`Rotate ${key.name}`}
                                  title="Rotate"
                                  onClick={() => setOpen({ kind: 'rotate', key })}
                                >
                                  <Icon name="refresh" />
                                </button>
                              )}
                              <button
                                type="button"
                                className="icon-button danger"
                                aria-label={`Revoke ${key.name}`}
                                title="Revoke"
                                onClick={() => setOpen({ kind: 'revoke', key })}
                              >
                                <Icon name="trash" />
                              </button>
                            </span>
                          ) : null,
                      },
                    ]}
                  />
                )}
              </>
            );
          }}
        </ListView>
      </Panel>
      {open?.kind === 'create' && (
        <KeyDialog
          apiKey={null}
          serviceAccount={search.get('for') ?? ''}
          onClose={close}
          onCreated={(key) => {
            changed();
            setOpen({ kind: 'secret', key, rotated: false });
          }}
        />
      )}
      {open?.kind === 'edit' && (
        <KeyDialog
          apiKey={open.key}
          onClose={close}
          onSaved={() => {
            changed();
            toast('Key saved');
            close();
          }}
        />
      )}
      {open?.kind === 'rotate' && (
        <RotateKeyDialog
          apiKey={open.key}
          onClose={close}
          onRotated={(key) => {
            changed();
            setOpen({ kind: 'secret', key, rotated: true });
          }}
        />
      )}
      {open?.kind === 'secret' && <KeySecretDialog created={open.key} rotated={open.rotated} onClose={close} />}
      {open?.kind === 'revoke' && (
        <ConfirmDialog
          title={`Revoke ${open.key.name}?`}
          confirm="Revoke key"
          danger
          onConfirm={() => revoke(open.key)}
          onClose={close}
        >
          <p>
            Requests with <Code>{keyHint(open.key)}</Code> will start to fail with 401 within seconds. This cannot be
            undone.
          </p>
          <p className="muted">
            Last used: <Time at={open.key.last_used_at} />
          </p>
        </ConfirmDialog>
      )}
    </>
  );
}

export function KeyStatus({ apiKey }: { apiKey: ApiKeyObject }): ReactNode {
  if (apiKey.status === 'revoked') return <Badge tone="danger">Revoked</Badge>;
  if (apiKey.status === 'expired') return <Badge tone="warn">Expired</Badge>;
  // A rotated key works until the end of its grace period.
  if (apiKey.revoked_at !== null)
    return (
      <span title={dateTime(apiKey.revoked_at)}>
        <Badge tone="warn" dot>
          Ends <Time at={apiKey.revoked_at} />
        </Badge>
      </span>
    );
  return (
    <Badge tone="ok" dot>
      Active
    </Badge>
  );
}

export function KeyScope({ apiKey }: { apiKey: ApiKeyObject }): ReactNode {
  const all = apiKey.models.includes('*');
  const everything = apiKey.scopes.length === SCOPES.length;
  return (
    <div>
      <span>{all ? 'All models' : apiKey.models.join(', ')}</span>
      {(!everything || apiKey.limits !== null) && (
        <span className="cell-sub">
          {[
            everything ? null : plural(apiKey.scopes.length, 'permission'),
            apiKey.limits === null ? null : 'key limits',
          ]
            .filter((part) => part !== null)
            .join(' · ')}
        </span>
      )}
    </div>
  );
}
