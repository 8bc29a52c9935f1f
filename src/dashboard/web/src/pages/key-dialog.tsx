// Dialog that creates an API key, or edits an existing key's permissions and limits.
import { useState } from 'react';
import type { ReactNode } from 'react';
import type { ApiKeyObject, CreatedApiKey, KeyScope } from '../../../../shared/wire/api-keys.js';
import type { LimitOverrides, LimitValues } from '../../../../shared/wire/limits.js';
import { api } from '../api.js';
import { Button } from '../components/button.js';
import { Dialog } from '../components/dialog.js';
import { Checkbox, errorSentence, FieldSet, Radio, Select, TextArea, TextField } from '../components/field.js';
import { FormError, useAction } from '../components/form.js';
import { dateTime } from '../format.js';
import { useModels, useServiceAccounts } from '../queries.js';
import { useOrganization } from '../session.js';

export const SCOPES: readonly { value: KeyScope; label: string }[] = [
  { value: 'inference', label: 'Run models' },
  { value: 'tokens.count', label: 'Count tokens' },
  { value: 'models.read', label: 'List models' },
  { value: 'responses.read', label: 'Read stored responses' },
  { value: 'responses.delete', label: 'Delete stored responses' },
  { value: 'files.read', label: 'Read files' },
  { value: 'files.write', label: 'Upload and delete files' },
  { value: 'batches', label: 'Run batches' },
];

const EXPIRIES = [
  { value: 'never', label: 'Never' },
  { value: '7', label: 'In 7 days' },
  { value: '30', label: 'In 30 days' },
  { value: '90', label: 'In 90 days' },
  { value: '365', label: 'In 1 year' },
  { value: 'date', label: 'On a date …' },
] as const;

const LIMITS: readonly { name: keyof LimitValues; label: string }[] = [
  { name: 'rpm', label: 'Requests per minute' },
  { name: 'tpm', label: 'Tokens per minute' },
  { name: 'concurrency', label: 'Concurrent requests' },
];
const FIELDS = ['name', 'models', 'scopes', 'expires_at', 'limits', 'allowed_addresses', 'service_account_id'];

type Draft = Record<string, Partial<Record<keyof LimitValues, string>>>;

/** `apiKey`: the key to edit; null to create a new key. */
export function KeyDialog({
  apiKey,
  serviceAccount = '',
  onClose,
  onCreated,
  onSaved,
}: {
  apiKey: ApiKeyObject | null;
  /** ID of the service account that is initially selected as the owner of a new key. */
  serviceAccount?: string;
  onClose: () => void;
  onCreated?: (key: CreatedApiKey) => void;
  onSaved?: () => void;
}): ReactNode {
  const { path, may } = useOrganization();
  const models = useModels();
  const accounts = useServiceAccounts();
  const [owner, setOwner] = useState(serviceAccount);
  const owners = accounts.data?.filter(({ disabled, role }) => !disabled && role !== 'viewer') ?? [];
  const action = useAction();
  const [name, setName] = useState(apiKey?.name ?? '');
  const [allModels, setAllModels] = useState(apiKey?.models.includes('*') ?? true);
  const [chosen, setChosen] = useState<readonly string[]>(apiKey?.models.filter((model) => model !== '*') ?? []);
  const [scopes, setScopes] = useState<readonly KeyScope[]>(apiKey?.scopes ?? SCOPES.map(({ value }) => value));
  const [expiry, setExpiry] = useState<string>(apiKey === null || apiKey.expires_at === null ? 'never' : 'keep');
  const [day, setDay] = useState('');
  const [limits, setLimits] = useState<Draft>(() => draftOf(apiKey?.limits ?? null));
  const [addresses, setAddresses] = useState(apiKey?.allowed_addresses.join('\n') ?? '');
  // Models already listed in the key stay selectable, even if they are no longer served.
  const names = [
    ...new Set([
      ...(models.data?.filter(({ lifecycle }) => lifecycle !== 'retired').map(({ id }) => id) ?? []),
      ...chosen,
    ]),
  ];
  // Returns an error for each missing input. The form checks this itself, so that it can show all missing inputs
  // together.
  const [problems, setProblems] = useState<{ models?: string; scopes?: string; name?: string }>({});

  const save = (): void => {
    const wrong = {
      ...(name.trim() === '' ? { name: 'is required.' } : {}),
      ...(!allModels && chosen.length === 0 ? { models: 'Choose at least one model.' } : {}),
      ...(scopes.length === 0 ? { scopes: 'Choose at least one permission.' } : {}),
    };
    setProblems(wrong);
    if (Object.keys(wrong).length > 0) return;
    void action.run(async () => {
      const body = {
        name,
        models: allModels ? ['*'] : chosen,
        scopes,
        limits: limitsOf(limits),
        allowed_addresses: addresses.split(/[\s,]+/).filter((one) => one !== ''),
        ...(expiry === 'keep' ? {} : { expires_at: expiryOf(expiry, day) }),
      };
      if (apiKey === null)
        onCreated?.(
          await api.post<CreatedApiKey>(
            `${path}/api-keys`,
            owner === '' ? body : { ...body, service_account_id: owner },
          ),
        );
      else {
        await api.patch(`${path}/api-keys/${apiKey.id}`, body);
        onSaved?.();
      }
    });
  };
  const toggle = <T extends string>(list: readonly T[], value: T, on: boolean): T[] =>
    on ? [...list, value] : list.filter((one) => one !== value);
  const setLimit = (model: string, limit: keyof LimitValues, value: string): void =>
    setLimits((old) => ({ ...old, [model]: { ...old[model], [limit]: value } }));
  return (
    <Dialog
      title={apiKey === null ? 'Create an API key' : `Edit ${apiKey.name}`}
      onClose={onClose}
      onSubmit={save}
      size="wide"
      footer={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button type="submit" variant="primary" busy={action.busy}>
            {apiKey === null ? 'Create key' : 'Save'}
          </Button>
        </>
      }
    >
      <div className="form-row">
        <TextField
          label="Name"
          value={name}
          autoFocus
          maxLength={128}
          onChange={(event) => setName(event.target.value)}
          error={problems.name ?? action.errorOf('name')}
          hint="What the key is used for, such as a program or a machine."
        />
        <Select
          label="Expires"
          value={expiry}
          onChange={(event) => setExpiry(event.target.value)}
          error={expiry === 'date' ? null : action.errorOf('expires_at')}
        >
          {apiKey?.expires_at != null && <option value="keep">Current: {dateTime(apiKey.expires_at)}</option>}
          {EXPIRIES.map(({ value, label }) => (
            <option key={value} value={value}>
              {label}
            </option>
          ))}
        </Select>
        {expiry === 'date' && (
          <TextField
            label="Date"
            type="date"
            value={day}
            min={new Date().toISOString().slice(0, 10)}
            onChange={(event) => setDay(event.target.value)}
            error={action.errorOf('expires_at')}
            hint="Valid until the end of that day."
          />
        )}
      </div>
      {apiKey === null && may('admin') && owners.length > 0 && (
        <Select
          label="Owner"
          value={owner}
          onChange={(event) => setOwner(event.target.value)}
          error={action.errorOf('service_account_id')}
          hint="The key of a service account keeps working when you leave."
        >
          <option value="">You</option>
          <optgroup label="Service accounts">
            {owners.map(({ id, name: label }) => (
              <option key={id} value={id}>
                {label}
              </option>
            ))}
          </optgroup>
        </Select>
      )}
      <div className="form-row">
        <FieldSet legend="Models" error={problems.models ?? action.errorOf('models')}>
          <Radio
            label="All models, including future ones"
            name="models"
            checked={allModels}
            onChange={() => setAllModels(true)}
          />
          <Radio label="Only these models" name="models" checked={!allModels} onChange={() => setAllModels(false)} />
          {!allModels && (
            <div className="indent">
              {names.map((model) => (
                <Checkbox
                  key={model}
                  label={<code>{model}</code>}
                  checked={chosen.includes(model)}
                  onChange={(event) => setChosen(toggle(chosen, model, event.target.checked))}
                />
              ))}
            </div>
          )}
        </FieldSet>
        <FieldSet legend="Permissions" error={problems.scopes ?? action.errorOf('scopes')}>
          {SCOPES.map(({ value, label }) => (
            <Checkbox
              key={value}
              label={label}
              checked={scopes.includes(value)}
              onChange={(event) => setScopes(toggle(scopes, value, event.target.checked))}
            />
          ))}
        </FieldSet>
      </div>
      <details className="disclosure" open={apiKey?.limits != null || undefined}>
        <summary>Limits of this key</summary>
        <p className="hint">In addition to the organization's limits. Leave empty for no extra limit.</p>
        {action.errorOf('limits') !== null && (
          <p className="field-error" role="alert">
            {errorSentence('Limits', action.errorOf('limits') ?? '')}
          </p>
        )}
        <div className="key-limits">
          {['*', ...names].map((model) => (
            <fieldset key={model} className="key-limit">
              <legend>{model === '*' ? 'All models' : <code>{model}</code>}</legend>
              {LIMITS.map((limit) => (
                <TextField
                  key={limit.name}
                  label={limit.label}
                  inputMode="numeric"
                  pattern="[0-9]*"
                  value={limits[model]?.[limit.name] ?? ''}
                  onChange={(event) => setLimit(model, limit.name, event.target.value.replace(/\D/g, ''))}
                />
              ))}
            </fieldset>
          ))}
        </div>
      </details>
      <details className="disclosure" open={(apiKey?.allowed_addresses.length ?? 0) > 0 || undefined}>
        <summary>Allowed addresses</summary>
        <TextArea
          label="IP addresses and ranges"
          value={addresses}
          placeholder={'203.0.113.7\n2001:db8::/32'}
          hint="One per line. Requests from other addresses are rejected with 403. Leave empty to allow all addresses."
          error={action.errorOf('allowed_addresses')}
          onChange={(event) => setAddresses(event.target.value)}
        />
      </details>
      <FormError action={action} fields={FIELDS} />
    </Dialog>
  );
}

function draftOf(limits: LimitOverrides | null): Draft {
  return Object.fromEntries(
    Object.entries(limits ?? {}).map(([model, values]) => [
      model,
      Object.fromEntries(
        Object.entries(values)
          .filter(([, value]) => value != null)
          .map(([name, value]) => [name, String(value)]),
      ),
    ]),
  );
}

/** The limits to send; null if the key has no separate limits. */
function limitsOf(draft: Draft): LimitOverrides | null {
  const limits: LimitOverrides = {};
  for (const [model, values] of Object.entries(draft)) {
    const given = Object.entries(values).filter(([, value]) => value !== '');
    if (given.length > 0) limits[model] = Object.fromEntries(given.map(([name, value]) => [name, Number(value)]));
  }
  return Object.keys(limits).length === 0 ? null : limits;
}

/** The end of the chosen day in the browser's time zone. Invalid dates are passed to the server, which refuses them. */
function expiryOf(expiry: string, day: string): string | null {
  if (expiry === 'never') return null;
  if (expiry !== 'date') return new Date(Date.now() + Number(expiry) * 86_400_000).toISOString();
  const end = new Date(`${day}T23:59:59`);
  return Number.isNaN(end.getTime()) ? day : end.toISOString();
}
