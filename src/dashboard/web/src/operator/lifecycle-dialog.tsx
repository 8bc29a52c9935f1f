// Changes a model's lifecycle: active, deprecated (with dates and a successor) or retired.
import { useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import type { ReactNode } from 'react';
import type { OperatorModel, OperatorModelPatch } from '../../../../shared/wire/models.js';
import { api, fieldError, messageOf } from '../api.js';
import { Button } from '../components/button.js';
import { Dialog } from '../components/dialog.js';
import { Select, TextField } from '../components/field.js';
import { Notice } from '../components/states.js';
import { Segmented } from '../components/tabs.js';
import { useToast } from '../components/toasts.js';

const NOTICE_DAYS = 90;
const dayOf = (time: string | null): string => time?.slice(0, 10) ?? '';
const timeOf = (day: string): string | null => (day === '' ? null : `${day}T00:00:00Z`);
const later = (day: string, days: number): string =>
  new Date(Date.parse(`${day === '' ? new Date().toISOString().slice(0, 10) : day}T00:00:00Z`) + days * 86_400_000)
    .toISOString()
    .slice(0, 10);

export function LifecycleDialog({
  model,
  others,
  onClose,
}: {
  model: OperatorModel;
  others: readonly OperatorModel[];
  onClose: () => void;
}): ReactNode {
  const client = useQueryClient();
  const toast = useToast();
  const [lifecycle, setLifecycle] = useState(model.lifecycle);
  const [deprecated, setDeprecated] = useState(dayOf(model.deprecated_at));
  const [retires, setRetires] = useState(dayOf(model.retires_at));
  const [successor, setSuccessor] = useState(model.successor ?? '');
  const [busy, setBusy] = useState(false);
  const [failure, setFailure] = useState<unknown>(null);
  const today = new Date().toISOString().slice(0, 10);

  const save = (): void => {
    setBusy(true);
    setFailure(null);
    const dates =
      lifecycle === 'active'
        ? { deprecated_at: null, retires_at: null }
        : { deprecated_at: sameDay(deprecated, model.deprecated_at), retires_at: sameDay(retires, model.retires_at) };
    const patch: OperatorModelPatch = { lifecycle, ...dates, successor: successor === '' ? null : successor };
    api.patch<OperatorModel>(`/operator/models/${encodeURIComponent(model.id)}`, patch).then(
      async (changed) => {
        await client.invalidateQueries({ queryKey: ['operator', 'models'] });
        void client.invalidateQueries({ queryKey: ['organization'] });
        toast(`${model.id} is ${changed.lifecycle}`);
        onClose();
      },
      (error: unknown) => {
        setFailure(error);
        setBusy(false);
      },
    );
  };
  const ofField = ['deprecated_at', 'retires_at', 'successor'].some((field) => fieldError(failure, field) !== null);
  return (
    <Dialog
      title={`Lifecycle of ${model.id}`}
      onClose={onClose}
      onSubmit={save}
      footer={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button
            type="submit"
            variant={lifecycle === 'retired' && model.lifecycle !== 'retired' ? 'danger' : 'primary'}
            busy={busy}
          >
            Save
          </Button>
        </>
      }
    >
      <Segmented
        label="Lifecycle"
        value={lifecycle}
        onChange={(next) => {
          setLifecycle(next);
          if (next === 'deprecated' && deprecated === '') {
            setDeprecated(today);
            if (retires === '') setRetires(later(today, NOTICE_DAYS + 1));
          }
        }}
        options={[
          { value: 'active', label: 'Active' },
          { value: 'deprecated', label: 'Deprecated' },
          { value: 'retired', label: 'Retired' },
        ]}
      />
      {lifecycle !== 'active' && (
        <div className="form-row">
          <TextField
            type="date"
            label="Deprecated from"
            value={deprecated}
            error={fieldError(failure, 'deprecated_at')}
            onChange={(event) => setDeprecated(event.target.value)}
          />
          <TextField
            type="date"
            label="Retires on"
            optional
            value={retires}
            error={fieldError(failure, 'retires_at')}
            hint={`At least ${NOTICE_DAYS} days later`}
            onChange={(event) => setRetires(event.target.value)}
          />
        </div>
      )}
      {lifecycle !== 'active' && (
        <Select
          label="Successor"
          optional
          value={successor}
          error={fieldError(failure, 'successor')}
          hint="Requests for the retired model fail with an error that names the successor."
          onChange={(event) => setSuccessor(event.target.value)}
          options={[{ value: '', label: 'none' }, ...others.map(({ id }) => ({ value: id, label: id }))]}
        />
      )}
      {lifecycle === 'retired' && model.lifecycle !== 'retired' && (
        <Notice tone="warn">Requests for {model.id} return 404 from now on.</Notice>
      )}
      {failure !== null && !ofField && <Notice tone="danger">{messageOf(failure)}</Notice>}
    </Dialog>
  );
}

/** An unchanged date keeps its time of day. */
function sameDay(day: string, before: string | null): string | null {
  return before !== null && dayOf(before) === day ? before : timeOf(day);
}
