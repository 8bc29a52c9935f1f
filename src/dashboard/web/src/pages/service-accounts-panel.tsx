// Service accounts on the Members page: members that cannot sign in and only own API keys.
import { useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import type { ReactNode } from 'react';
import { Link } from 'wouter';
import type { ServiceAccountObject, ServiceAccountRole } from '../../../../shared/wire/organizations.js';
import { api, messageOf } from '../api.js';
import { Badge } from '../components/badge.js';
import { Button } from '../components/button.js';
import { ConfirmDialog, Dialog } from '../components/dialog.js';
import { FieldSet, Radio, TextField } from '../components/field.js';
import { FormError, useAction } from '../components/form.js';
import { ListView, useList } from '../components/list.js';
import { Panel, Time } from '../components/page.js';
import { EmptyState, Notice } from '../components/states.js';
import { Table } from '../components/table.js';
import { useToast } from '../components/toasts.js';
import { plural } from '../format.js';
import { roleLabel } from '../roles.js';
import { useOrganization } from '../session.js';

type Open = { kind: 'create' } | { kind: 'edit' | 'disable' | 'delete'; account: ServiceAccountObject } | null;

const ROLES: readonly { value: ServiceAccountRole; label: string; help: string }[] = [
  { value: 'admin', label: 'Admin', help: 'Same as developer: API keys have no admin rights' },
  { value: 'developer', label: 'Developer', help: 'May own API keys' },
  { value: 'viewer', label: 'Viewer', help: 'Gets no new API keys' },
];

export function ServiceAccountsPanel(): ReactNode {
  const { id, path, status, may } = useOrganization();
  const client = useQueryClient();
  const toast = useToast();
  const [open, setOpen] = useState<Open>(null);
  const [failure, setFailure] = useState<unknown>(null);
  const list = useList<ServiceAccountObject>(['organization', id, 'service-accounts'], `${path}/service-accounts`);
  const mayChange = may('admin') && status === 'active';
  const close = (): void => setOpen(null);
  const changed = (): void => {
    void client.invalidateQueries({ queryKey: ['organization', id, 'service-accounts'] });
    void client.invalidateQueries({ queryKey: ['organization', id, 'api-keys'] });
  };
  const setDisabled = async (account: ServiceAccountObject, disabled: boolean): Promise<void> => {
    await api.patch(`${path}/service-accounts/${account.id}`, { disabled });
    toast(`${account.name} ${disabled ? 'disabled' : 'enabled'}`);
    changed();
  };
  const enable = (account: ServiceAccountObject): void => {
    setFailure(null);
    setDisabled(account, false).catch(setFailure);
  };
  const create = mayChange ? (
    <Button onClick={() => setOpen({ kind: 'create' })}>New service account</Button>
  ) : undefined;
  return (
    <Panel
      title="Service accounts"
      lead="Members for programs. They cannot sign in. Their API keys keep working when the person who created them leaves."
      actions={list.rows.length > 0 ? create : undefined}
      flush
    >
      {failure !== null && <Notice tone="danger">{messageOf(failure)}</Notice>}
      <ListView
        list={list}
        empty={
          <EmptyState icon="keys" title="No service accounts" action={create}>
            {mayChange
              ? 'Create one for a program, then create an API key for it.'
              : 'An admin can create one for a program.'}
          </EmptyState>
        }
      >
        {(rows) => (
          <Table
            caption="Service accounts"
            rows={rows}
            rowKey={(account) => account.id}
            rowClass={({ disabled }) => (disabled ? 'dim' : undefined)}
            columns={[
              {
                key: 'name',
                header: 'Name',
                heading: true,
                cell: (account) => (
                  <>
                    <span className="cell-main">{account.name}</span>
                    <span className="cell-sub">
                      <code>{account.id}</code>
                    </span>
                  </>
                ),
              },
              { key: 'role', header: 'Role', cell: ({ role }) => roleLabel(role) },
              {
                key: 'status',
                header: 'Status',
                cell: ({ disabled }) =>
                  disabled ? (
                    <Badge tone="warn">Disabled</Badge>
                  ) : (
                    <Badge tone="ok" dot>
                      Active
                    </Badge>
                  ),
              },
              {
                key: 'keys',
                header: 'API keys',
                cell: (account) =>
                  mayChange && !account.disabled && account.role !== 'viewer' ? (
                    <>
                      {account.active_keys} · <Link href={`/keys?create&for=${account.id}`}>Create key</Link>
                    </>
                  ) : (
                    account.active_keys
                  ),
              },
              { key: 'created', header: 'Created', cell: (account) => <Time at={account.created_at} /> },
              {
                key: 'actions',
                header: 'Actions',
                actions: true,
                cell: (account) =>
                  mayChange ? (
                    <>
                      <Button
                        size="small"
                        variant="ghost"
                        aria-label={`Edit ${account.name}`}
                        onClick={() => setOpen({ kind: 'edit', account })}
                      >
                        Edit
                      </Button>
                      <Button
                        size="small"
                        variant="ghost"
                        aria-label={`${account.disabled ? 'Enable' : 'Disable'} ${account.name}`}
                        onClick={() => (account.disabled ? enable(account) : setOpen({ kind: 'disable', account }))}
                      >
                        {account.disabled ? 'Enable' : 'Disable'}
                      </Button>
                      <Button
                        size="small"
                        variant="ghost"
                        aria-label={`Delete ${account.name}`}
                        onClick={() => setOpen({ kind: 'delete', account })}
                      >
                        Delete
                      </Button>
                    </>
                  ) : null,
              },
            ]}
          />
        )}
      </ListView>
      {(open?.kind === 'create' || open?.kind === 'edit') && (
        <ServiceAccountDialog
          account={open.kind === 'edit' ? open.account : null}
          onClose={close}
          onSaved={(saved) => {
            toast(`${saved.name} ${open.kind === 'edit' ? 'saved' : 'created'}`);
            changed();
            close();
          }}
        />
      )}
      {open?.kind === 'disable' && (
        <ConfirmDialog
          title={`Disable ${open.account.name}?`}
          confirm="Disable"
          danger
          onClose={close}
          onConfirm={() => setDisabled(open.account, true)}
        >
          <p>
            Requests with its {plural(open.account.active_keys, 'API key')} return 403 and running ones end, until it is
            enabled again.
          </p>
        </ConfirmDialog>
      )}
      {open?.kind === 'delete' && (
        <ConfirmDialog
          title={`Delete ${open.account.name}?`}
          confirm="Delete service account"
          danger
          onClose={close}
          onConfirm={async () => {
            await api.delete(`${path}/service-accounts/${open.account.id}`);
            toast(`${open.account.name} deleted`);
            changed();
          }}
        >
          <p>
            {open.account.active_keys === 0
              ? 'It has no valid API keys. This cannot be undone.'
              : `Its ${plural(open.account.active_keys, 'valid API key')} will be revoked, so programs that use them stop working within seconds. This cannot be undone.`}
          </p>
        </ConfirmDialog>
      )}
    </Panel>
  );
}

/** `account`: the service account to edit; null to create one. */
function ServiceAccountDialog({
  account,
  onClose,
  onSaved,
}: {
  account: ServiceAccountObject | null;
  onClose: () => void;
  onSaved: (account: ServiceAccountObject) => void;
}): ReactNode {
  const { path } = useOrganization();
  const action = useAction();
  const [name, setName] = useState(account?.name ?? '');
  const [role, setRole] = useState<ServiceAccountRole>(account?.role ?? 'developer');
  const save = (): void => {
    void action.run(async () => {
      const body = { name, role };
      onSaved(
        account === null
          ? await api.post<ServiceAccountObject>(`${path}/service-accounts`, body)
          : await api.patch<ServiceAccountObject>(`${path}/service-accounts/${account.id}`, body),
      );
    });
  };
  return (
    <Dialog
      title={account === null ? 'New service account' : `Edit ${account.name}`}
      onClose={onClose}
      onSubmit={save}
      footer={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button type="submit" variant="primary" busy={action.busy}>
            {account === null ? 'Create' : 'Save'}
          </Button>
        </>
      }
    >
      <TextField
        label="Name"
        value={name}
        autoFocus
        maxLength={100}
        autoComplete="off"
        hint="What the account is used for, such as a program or a pipeline."
        onChange={(event) => setName(event.target.value)}
        error={action.errorOf('name')}
      />
      <FieldSet legend="Role" error={action.errorOf('role')}>
        {ROLES.map(({ value, label, help }) => (
          <Radio
            key={value}
            name="role"
            label={label}
            hint={help}
            checked={role === value}
            onChange={() => setRole(value)}
          />
        ))}
      </FieldSet>
      <FormError action={action} fields={['name', 'role']} />
    </Dialog>
  );
}
