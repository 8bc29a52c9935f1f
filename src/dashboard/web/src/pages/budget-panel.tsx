// What an organization wants to spend in a month, how far it is, and whom to tell.
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import type { ReactNode } from 'react';
import type { BudgetObject } from '../../../../shared/wire/dashboard.js';
import { api } from '../api.js';
import { Button } from '../components/button.js';
import { CopyButton } from '../components/copy.js';
import { Dialog } from '../components/dialog.js';
import { Checkbox, TextField } from '../components/field.js';
import { FormError, useAction } from '../components/form.js';
import { Meter, Panel } from '../components/page.js';
import { useToast } from '../components/toasts.js';
import { useOrganization, useSession } from '../session.js';
import { money } from '../usage-data.js';

export function BudgetPanel(): ReactNode {
  const { id, path, may, status } = useOrganization();
  const [editing, setEditing] = useState(false);
  const { data } = useQuery({
    queryKey: ['organization', id, 'budget'],
    queryFn: ({ signal }) => api.get<BudgetObject>(`${path}/budget`, {}, signal),
    refetchInterval: 60_000,
  });
  // Without prices there is nothing to hold against a budget.
  if (data === undefined || (data.spent === null && data.amount === null)) return null;
  const { amount, spent, currency, month } = data;
  const text = `${money(spent ?? 0, currency)}${amount === null ? '' : ` of ${money(amount, currency)}`}`;
  return (
    <Panel
      title="Budget"
      lead={`Of the month ${month} (UTC). It stops nothing: owners and admins are told at 80 and at 100 percent.`}
      actions={
        may('admin') && (
          <Button size="small" disabled={status === 'suspended'} onClick={() => setEditing(true)}>
            {amount === null ? 'Set a budget' : 'Change'}
          </Button>
        )
      }
    >
      <div className="use">
        <div className="use-head">
          <span>{text}</span>
          {amount === null ? (
            <span className="muted">no budget</span>
          ) : (
            <span className="muted">{Math.round((100 * (spent ?? 0)) / amount)}%</span>
          )}
        </div>
        {amount !== null && <Meter label="Budget" value={spent ?? 0} max={amount} text={text} />}
      </div>
      {editing && <BudgetDialog budget={data} onClose={() => setEditing(false)} />}
    </Panel>
  );
}

function BudgetDialog({ budget, onClose }: { budget: BudgetObject; onClose: () => void }): ReactNode {
  const { id, path } = useOrganization();
  const {
    status: { mail: canMail },
  } = useSession();
  const client = useQueryClient();
  const toast = useToast();
  const action = useAction();
  const [amount, setAmount] = useState(budget.amount === null ? '' : String(budget.amount));
  const [mail, setMail] = useState(budget.mail);
  const [webhook, setWebhook] = useState(budget.webhook_url ?? '');
  const isWrong = amount.trim() !== '' && !(Number(amount) > 0 && Number.isFinite(Number(amount)));
  const save = (): void => {
    void action.run(async () => {
      const changed = await api.put<BudgetObject>(`${path}/budget`, {
        amount: amount.trim() === '' ? null : Number(amount),
        mail,
        webhook_url: webhook.trim() === '' ? null : webhook.trim(),
      });
      client.setQueryData(['organization', id, 'budget'], changed);
      toast(changed.amount === null ? 'Budget removed' : 'Budget saved');
      onClose();
    });
  };
  return (
    <Dialog
      title="Budget of a month"
      onClose={onClose}
      onSubmit={save}
      footer={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button type="submit" variant="primary" busy={action.busy} disabled={isWrong}>
            Save budget
          </Button>
        </>
      }
    >
      <TextField
        label={budget.currency === '' ? 'Amount' : `Amount in ${budget.currency}`}
        inputMode="decimal"
        value={amount}
        hint="Empty: no budget."
        error={isWrong ? 'A number above 0' : action.errorOf('amount')}
        onChange={(event) => setAmount(event.target.value)}
      />
      <Checkbox
        label="Mail to owners and admins"
        checked={mail}
        disabled={!canMail}
        hint={canMail ? undefined : 'This server sends no mail.'}
        onChange={(event) => setMail(event.target.checked)}
      />
      <TextField
        label="Webhook"
        optional
        type="url"
        placeholder="https://"
        value={webhook}
        hint="Gets a signed POST; see the documentation."
        error={action.errorOf('webhook_url')}
        onChange={(event) => setWebhook(event.target.value)}
      />
      {budget.webhook_secret !== null && (
        <div className="secret">
          <code>{budget.webhook_secret}</code>
          <CopyButton text={budget.webhook_secret} label="Copy the secret that signs it" iconOnly />
        </div>
      )}
      <FormError action={action} fields={['amount', 'webhook_url']} />
    </Dialog>
  );
}
