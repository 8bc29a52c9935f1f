// Each model's price per million tokens, from which usage costs are computed.
import { useQuery, useQueryClient } from '@tanstack/react-query';
import type { UseQueryResult } from '@tanstack/react-query';
import { useState } from 'react';
import type { ReactNode } from 'react';
import type { ListPage } from '../../../../shared/wire/list.js';
import type { DashboardModel } from '../../../../shared/wire/models.js';
import type { ModelPrice, PriceTable } from '../../../../shared/wire/usage.js';
import { api } from '../api.js';
import { Button } from '../components/button.js';
import { Dialog } from '../components/dialog.js';
import { TextField } from '../components/field.js';
import { FormError, useAction } from '../components/form.js';
import { Code, Panel } from '../components/page.js';
import { Loaded } from '../components/states.js';
import { Table } from '../components/table.js';
import { useToast } from '../components/toasts.js';
import { money } from '../usage-data.js';

const KEY = ['operator', 'prices'];
const FIELDS = [
  { name: 'input', label: 'Input' },
  { name: 'cached_input', label: 'Cached input' },
  { name: 'output', label: 'Output' },
] as const satisfies readonly { name: keyof ModelPrice; label: string }[];

export const usePrices = (): UseQueryResult<PriceTable> =>
  useQuery({ queryKey: KEY, queryFn: ({ signal }) => api.get<PriceTable>('/operator/prices', {}, signal) });

export function PricePanel({ prices }: { prices: UseQueryResult<PriceTable> }): ReactNode {
  const [editing, setEditing] = useState(false);
  return (
    <Panel
      title="Prices"
      flush
      lead="Prices are per million tokens. Costs are computed from the current prices, even for past usage. Nothing is charged."
      actions={
        <Button size="small" disabled={prices.data === undefined} onClick={() => setEditing(true)}>
          Set prices
        </Button>
      }
    >
      <Loaded query={prices}>
        {({ models, currency }) =>
          Object.keys(models).length === 0 ? (
            <p className="panel-pad muted">No prices are set. Usage is shown without costs.</p>
          ) : (
            <Table
              caption="Prices"
              rows={Object.entries(models)}
              rowKey={([name]) => name}
              columns={[
                { key: 'model', header: 'Model', heading: true, cell: ([name]) => <Code>{name}</Code> },
                ...FIELDS.map(({ name, label }) => ({
                  key: name,
                  header: label,
                  numeric: true,
                  cell: ([, price]: [string, ModelPrice]) => money(price[name], currency, 'price'),
                })),
              ]}
            />
          )
        }
      </Loaded>
      {editing && prices.data !== undefined && <PriceDialog table={prices.data} onClose={() => setEditing(false)} />}
    </Panel>
  );
}

type Draft = Record<keyof ModelPrice, string>;
const EMPTY: Draft = { input: '', cached_input: '', output: '' };
const isNumber = (text: string): boolean => text.trim() === '' || (Number(text) >= 0 && Number.isFinite(Number(text)));

function PriceDialog({ table, onClose }: { table: PriceTable; onClose: () => void }): ReactNode {
  const client = useQueryClient();
  const toast = useToast();
  const action = useAction();
  const models = useQuery({
    queryKey: ['operator', 'models'],
    queryFn: ({ signal }) => api.get<ListPage<DashboardModel>>('/operator/models', {}, signal),
  });
  const [currency, setCurrency] = useState(table.currency);
  const [drafts, setDrafts] = useState<Record<string, Draft>>(() =>
    Object.fromEntries(
      Object.entries(table.models).map(([name, price]) => [
        name,
        { input: String(price.input), cached_input: String(price.cached_input), output: String(price.output) },
      ]),
    ),
  );
  const names = [
    ...new Set([
      ...(models.data?.data.flatMap((one) => (one.adapter_of === null ? [one.id] : [])) ?? []),
      ...Object.keys(table.models),
    ]),
  ];
  const isReady = Object.values(drafts).every((draft) => FIELDS.every(({ name }) => isNumber(draft[name])));
  const save = (): void => {
    void action.run(async () => {
      const priced = Object.entries(drafts).filter(([, draft]) => FIELDS.some(({ name }) => draft[name].trim() !== ''));
      // If cached tokens have no price of their own, they cost as much as other input tokens.
      const body: PriceTable = {
        currency,
        models: Object.fromEntries(
          priced.map(([name, draft]) => [
            name,
            {
              input: Number(draft.input),
              cached_input: Number(draft.cached_input.trim() === '' ? draft.input : draft.cached_input),
              output: Number(draft.output),
            },
          ]),
        ),
      };
      client.setQueryData(KEY, await api.put<PriceTable>('/operator/prices', body));
      await client.invalidateQueries({ queryKey: ['operator', 'usage'] });
      toast('Prices saved');
      onClose();
    });
  };
  return (
    <Dialog
      title="Prices per million tokens"
      size="wide"
      onClose={onClose}
      onSubmit={save}
      footer={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button type="submit" variant="primary" busy={action.busy} disabled={!isReady}>
            Save prices
          </Button>
        </>
      }
    >
      <div className="narrow">
        <TextField
          label="Currency"
          value={currency}
          maxLength={16}
          placeholder="EUR"
          onChange={(event) => setCurrency(event.target.value)}
        />
      </div>
      {names.map((model) => (
        <fieldset key={model} className="key-limit">
          <legend>{model}</legend>
          {FIELDS.map(({ name, label }) => (
            <TextField
              key={name}
              label={label}
              inputMode="decimal"
              value={drafts[model]?.[name] ?? ''}
              error={isNumber(drafts[model]?.[name] ?? '') ? null : 'must be a number, 0 or more.'}
              onChange={(event) =>
                setDrafts({ ...drafts, [model]: { ...EMPTY, ...drafts[model], [name]: event.target.value } })
              }
            />
          ))}
        </fieldset>
      ))}
      <FormError action={action} />
    </Dialog>
  );
}
