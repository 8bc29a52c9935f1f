// The budgets of members and API keys: how much of each budget has been spent, and a dialog to set or remove a budget.
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import type { ReactNode } from 'react';
import type { ApiKeyObject } from '../../../../shared/wire/api-keys.js';
import type { ListPage } from '../../../../shared/wire/list.js';
import type { MemberObject } from '../../../../shared/wire/organizations.js';
import type { PartBudgetObject, PartBudgets } from '../../../../shared/wire/usage.js';
import { api } from '../api.js';
import { useServiceAccounts } from '../queries.js';
import { Badge } from '../components/badge.js';
import { Button } from '../components/button.js';
import { Dialog } from '../components/dialog.js';
import { Select, TextField } from '../components/field.js';
import { FormError, useAction } from '../components/form.js';
import { Icon } from '../components/icon.js';
import { Meter, Panel } from '../components/page.js';
import { Table } from '../components/table.js';
import { useToast } from '../components/toasts.js';
import { keyHint } from '../format.js';
import { useOrganization } from '../session.js';
import { money } from '../usage-data.js';

/** A member or key that can have a budget. */
interface Part {
  id: string;
  label: string;
}

export function PartBudgetsPanel({ currency }: { currency: string }): ReactNode {
  const { id, path, may, status } = useOrganization();
  const [editing, setEditing] = useState<PartBudgetObject | 'new' | null>(null);
  const budgets = useQuery({
    queryKey: ['organization', id, 'budgets', 'parts'],
    queryFn: ({ signal }) => api.get<PartBudgets>(`${path}/budgets`, {}, signal),
    refetchInterval: 60_000,
  });
  const keys = useQuery({
    queryKey: ['organization', id, 'api-keys', 'first'],
    queryFn: ({ signal }) => api.get<ListPage<ApiKeyObject>>(`${path}/api-keys`, { limit: 100 }, signal),
  });
  const members = useQuery({
    queryKey: ['organization', id, 'members', 'first'],
    queryFn: ({ signal }) => api.get<ListPage<MemberObject>>(`${path}/members`, { limit: 100 }, signal),
  });
  const accounts = useServiceAccounts();
  const rows = budgets.data?.data ?? [];
  const mayChange = may('admin') && status !== 'suspended';
  if (rows.length === 0 && !mayChange) return null;
  const people: Part[] = [
    ...(members.data?.data ?? []).map((one) => ({ id: one.user_id, label: one.name || one.email })),
    ...(accounts.data ?? []).map((one) => ({ id: one.id, label: `${one.name} (service account)` })),
  ];
  const listed: Part[] = (keys.data?.data ?? []).map((one) => ({ id: one.id, label: `${one.name} (${keyHint(one)})` }));
  // A rotated key is shown under the name of its newest successor.
  const nameOf = ({ id: part, api_keys: ofPart, scope }: PartBudgetObject): string =>
    scope === 'member'
      ? (people.find((one) => one.id === part)?.label ??
        (part.startsWith('svc_') ? 'Deleted service account' : 'Former member'))
      : (listed.find((one) => one.id === (ofPart[0] ?? part))?.label ?? part);
  const taken = new Set(rows.flatMap((row) => (row.scope === 'member' ? [row.id] : row.api_keys)));
  const active = new Set((keys.data?.data ?? []).filter((one) => one.status === 'active').map((one) => one.id));
  const free = {
    members: people.filter((one) => !taken.has(one.id)),
    keys: listed.filter((one) => !taken.has(one.id) && active.has(one.id)),
  };
  return (
    <Panel
      title="Budgets of members and keys"
      lead="Requests are refused when a budget is spent. A member's budget covers the keys that the member created; a service account's budget covers its own keys."
      actions={
        mayChange && (
          <Button size="small" onClick={() => setEditing('new')}>
            Add a budget
          </Button>
        )
      }
      flush={rows.length > 0}
    >
      {rows.length > 0 && (
        <Table
          caption="Budgets of members and keys"
          rows={rows}
          rowKey={(row) => row.id}
          columns={[
            {
              key: 'name',
              header: 'Member or key',
              heading: true,
              cell: (row) => (
                <>
                  <span className="cell-main">{nameOf(row)}</span>
                  <span className="cell-sub">{row.scope === 'member' ? 'Member' : 'API key'}</span>
                </>
              ),
            },
            {
              key: 'spent',
              header: 'Spent',
              cell: (row) => {
                const text = `${money(row.spent ?? 0, currency)} of ${money(row.amount ?? 0, currency)}`;
                return (
                  <>
                    {text}
                    <Meter label={nameOf(row)} value={row.spent ?? 0} max={row.amount ?? 0} text={text} />
                  </>
                );
              },
            },
            {
              key: 'status',
              header: 'Status',
              cell: ({ spent, amount }) =>
                spent !== null && amount !== null && spent >= amount ? (
                  <Badge tone="danger">Refused</Badge>
                ) : (
                  <Badge tone="ok">Open</Badge>
                ),
            },
            {
              key: 'actions',
              header: 'Actions',
              actions: true,
              cell: (row) =>
                mayChange ? (
                  <span className="row-actions">
                    <button
                      type="button"
                      className="icon-button"
                      aria-label={`Change the budget of ${nameOf(row)}`}
                      title="Change"
                      onClick={() => setEditing(row)}
                    >
                      <Icon name="edit" />
                    </button>
                  </span>
                ) : null,
            },
          ]}
        />
      )}
      {editing !== null && (
        <PartBudgetDialog
          budget={editing === 'new' ? null : editing}
          name={editing === 'new' ? '' : nameOf(editing)}
          currency={currency}
          free={free}
          onClose={() => setEditing(null)}
        />
      )}
    </Panel>
  );
}

function PartBudgetDialog({
  budget,
  name,
  currency,
  free,
  onClose,
}: {
  /** The budget to edit; null to create a new one. */
  budget: PartBudgetObject | null;
  name: string;
  currency: string;
  free: { members: readonly Part[]; keys: readonly Part[] };
  onClose: () => void;
}): ReactNode {
  const { id, path } = useOrganization();
  const client = useQueryClient();
  const toast = useToast();
  const action = useAction();
  const [part, setPart] = useState(budget?.id ?? '');
  const [amount, setAmount] = useState(budget === null ? '' : String(budget.amount));
  const value = amount.trim() === '' ? null : Number(amount);
  const isWrong = value !== null && !(value > 0 && Number.isFinite(value));
  const save = (): void => {
    void action.run(async () => {
      await api.put<PartBudgetObject>(`${path}/budgets/${part}`, { amount: value });
      await client.invalidateQueries({ queryKey: ['organization', id, 'budgets'] });
      toast(value === null ? 'Budget removed' : 'Budget saved');
      onClose();
    });
  };
  return (
    <Dialog
      title={budget === null ? 'Budget of a member or key' : `Monthly budget of ${name}`}
      onClose={onClose}
      onSubmit={save}
      footer={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button
            type="submit"
            variant="primary"
            busy={action.busy}
            disabled={isWrong || part === '' || (budget === null && value === null)}
          >
            Save budget
          </Button>
        </>
      }
    >
      {budget === null && (
        <Select
          label="Member or key"
          value={part}
          error={action.errorOf('part')}
          onChange={(event) => setPart(event.target.value)}
        >
          <option value="">Choose…</option>
          <optgroup label="Members">
            {free.members.map((one) => (
              <option key={one.id} value={one.id}>
                {one.label}
              </option>
            ))}
          </optgroup>
          <optgroup label="API keys">
            {free.keys.map((one) => (
              <option key={one.id} value={one.id}>
                {one.label}
              </option>
            ))}
          </optgroup>
        </Select>
      )}
      <TextField
        label={currency === '' ? 'Amount per month' : `Amount per month in ${currency}`}
        inputMode="decimal"
        value={amount}
        hint={budget === null ? 'Requests are refused when the budget is spent.' : 'Leave empty to remove the budget.'}
        error={isWrong ? 'Must be a number above 0' : action.errorOf('amount')}
        onChange={(event) => setAmount(event.target.value)}
      />
      <FormError action={action} fields={['amount', 'part']} />
    </Dialog>
  );
}
