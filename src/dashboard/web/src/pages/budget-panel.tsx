// The organization's monthly budget: how much has been spent, and which notifications are sent.
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import type { ReactNode } from 'react';
import type { BudgetObject } from '../../../../shared/wire/usage.js';
import { api } from '../api.js';
import { Button } from '../components/button.js';
import { CopyButton } from '../components/copy.js';
import { Dialog } from '../components/dialog.js';
import { Checkbox, Select, TextField } from '../components/field.js';
import { FormError, useAction } from '../components/form.js';
import { Meter, Panel } from '../components/page.js';
import { useToast } from '../components/toasts.js';
import { useOrganization, useSession } from '../session.js';
import { money } from '../usage-data.js';
import { PartBudgetsPanel } from './part-budgets-panel.js';

export function BudgetPanel(): ReactNode {
  const { id, path, may, status } = useOrganization();
  const [editing, setEditing] = useState(false);
  const { data } = useQuery({
    queryKey: ['organization', id, 'budget'],
    queryFn: ({ signal }) => api.get<BudgetObject>(`${path}/budget`, {}, signal),
    refetchInterval: 60_000,
  });
  // If no prices are set, the spending is unknown. The panel is then shown only if the budget has an amount.
  if (data === undefined || (data.spent === null && data.amount === null)) return null;
  const { amount, spent, currency, month, stops } = data;
  const text = `${money(spent ?? 0, currency)}${amount === null ? '' : ` of ${money(amount, currency)}`}`;
  return (
    <>
      <Panel
        title="Budget"
        lead={`For ${month} (UTC). Owners and admins are notified at 80% and 100%. ${stops ? 'When the budget is spent, requests are refused.' : 'The budget does not block requests.'}`}
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
      <PartBudgetsPanel currency={currency} />
    </>
  );
}

function BudgetDialog({ budget, onClose }: { budget: BudgetObject; onClose: () => void }): ReactNode {
  const { id, path, may } = useOrganization();
  const {
    status: { mail: canMail },
  } = useSession();
  const client = useQueryClient();
  const toast = useToast();
  const action = useAction();
  const [amount, setAmount] = useState(budget.amount === null ? '' : String(budget.amount));
  const [mail, setMail] = useState(budget.mail);
  const [stops, setStops] = useState(budget.stops);
  const [webhook, setWebhook] = useState(budget.webhook_url ?? '');
  const isWrong = amount.trim() !== '' && !(Number(amount) > 0 && Number.isFinite(Number(amount)));
  const save = (): void => {
    void action.run(async () => {
      const changed = await api.put<BudgetObject>(`${path}/budget`, {
        amount: amount.trim() === '' ? null : Number(amount),
        mail,
        stops,
        webhook_url: webhook.trim() === '' ? null : webhook.trim(),
      });
      client.setQueryData(['organization', id, 'budget'], changed);
      void client.invalidateQueries({ queryKey: ['organization', id, 'budgets'] });
      toast(changed.amount === null ? 'Budget removed' : 'Budget saved');
      onClose();
    });
  };
  return (
    <Dialog
      title="Monthly budget"
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
        hint="Leave empty for no budget."
        error={isWrong ? 'Must be a number above 0' : action.errorOf('amount')}
        onChange={(event) => setAmount(event.target.value)}
      />
      <Select
        label="When it is spent"
        value={stops ? 'stop' : 'notify'}
        disabled={!may('owner')}
        hint={may('owner') ? 'Running requests end normally.' : 'Only owners can change this.'}
        error={action.errorOf('stops')}
        onChange={(event) => setStops(event.target.value === 'stop')}
        options={[
          { value: 'notify', label: 'Notify only' },
          { value: 'stop', label: 'Refuse requests' },
        ]}
      />
      <Checkbox
        label="Email owners and admins"
        checked={mail}
        disabled={!canMail}
        hint={canMail ? undefined : 'This server is not configured to send email.'}
        onChange={(event) => setMail(event.target.checked)}
      />
      <TextField
        label="Webhook"
        optional
        type="url"
        placeholder="https://"
        value={webhook}
        hint="Receives a signed POST request; see the documentation."
        error={action.errorOf('webhook_url')}
        onChange={(event) => setWebhook(event.target.value)}
      />
      {budget.webhook_secret !== null && (
        <div className="secret">
          <code>{budget.webhook_secret}</code>
          <CopyButton text={budget.webhook_secret} label="Copy the signing secret" iconOnly />
        </div>
      )}
      <FormError action={action} fields={['amount', 'stops', 'webhook_url']} />
    </Dialog>
  );
}
