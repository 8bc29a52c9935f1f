// Serving a model that has been fetched: a name for it, and whether it is loaded at once; and taking the name away again.
import { useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import type { ReactNode } from 'react';
import type { DiskModel, OperatorModel } from '../../../../shared/wire/dashboard.js';
import { api } from '../api.js';
import { Button } from '../components/button.js';
import { ConfirmDialog, Dialog } from '../components/dialog.js';
import { Checkbox, TextField } from '../components/field.js';
import { FormError, useAction } from '../components/form.js';
import { Code } from '../components/page.js';
import { Notice } from '../components/states.js';
import { useToast } from '../components/toasts.js';
import { bytes } from '../format.js';

/** What a repository's model may be called: its name without what says how it is packed. */
function nameFor(model: string): string {
  return model
    .replace(/^[^/]*\//, '')
    .replace(/[:@].*$/s, '')
    .replace(/[-_.]?gguf$/i, '')
    .toLowerCase();
}

export function ServeDialog({ model, onClose }: { model: DiskModel; onClose: () => void }): ReactNode {
  const [name, setName] = useState(() => nameFor(model.model));
  const [idle, setIdle] = useState('');
  const [now, setNow] = useState(true);
  const client = useQueryClient();
  const toast = useToast();
  const action = useAction();
  const serve = (): void => {
    void action
      .run(async () => {
        const { id } = await api.post<OperatorModel>('/operator/models', {
          name: name.trim(),
          model: model.model,
          idle_minutes: idle.trim() === '' ? null : Number(idle),
        });
        if (now) await api.post<OperatorModel>(`/operator/models/${encodeURIComponent(id)}/load`);
        await client.invalidateQueries({ queryKey: ['operator'] });
        toast(now ? `${id} is loading` : `${id} is served, and loaded when it is asked for`);
      })
      .then((went) => {
        if (went) onClose();
      });
  };
  return (
    <Dialog
      title={`Serve ${model.model}`}
      onClose={onClose}
      onSubmit={serve}
      footer={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button type="submit" variant="primary" busy={action.busy} disabled={name.trim() === ''}>
            Serve
          </Button>
        </>
      }
    >
      <TextField
        label="Name"
        name="name"
        value={name}
        error={action.errorOf('name')}
        hint="What requests call it. It is served on after restarts."
        onChange={(event) => setName(event.target.value)}
      />
      <TextField
        label="Give its memory back after"
        name="idle_minutes"
        optional
        inputMode="numeric"
        value={idle}
        error={action.errorOf('idle_minutes')}
        hint="Minutes without requests. Without: when another model needs the memory."
        onChange={(event) => setIdle(event.target.value)}
      />
      <Checkbox
        label="Load it now"
        hint="Otherwise with the first request for it, which waits."
        checked={now}
        onChange={(event) => setNow(event.target.checked)}
      />
      {model.fits === 'later' && (
        <Notice tone="warn">
          It takes {bytes(model.memory_bytes ?? 0)} of memory, more than is free now: models that nobody uses give
          theirs back for it.
        </Notice>
      )}
      <FormError action={action} fields={['name', 'idle_minutes']} />
    </Dialog>
  );
}

export function UnserveButton({ model: { id, source } }: { model: OperatorModel }): ReactNode {
  const client = useQueryClient();
  const toast = useToast();
  const [asking, setAsking] = useState(false);
  if (source === null) return null;
  const unserve = async (): Promise<void> => {
    await api.delete(`/operator/models/${encodeURIComponent(id)}`);
    await client.invalidateQueries({ queryKey: ['operator'] });
    toast(`${id} is served no more`);
  };
  return (
    <>
      <Button size="small" aria-label={`Unserve ${id}`} onClick={() => setAsking(true)}>
        Unserve
      </Button>
      {asking && (
        <ConfirmDialog
          title={`Unserve ${id}?`}
          confirm="Unserve"
          danger
          onConfirm={unserve}
          onClose={() => setAsking(false)}
        >
          <p>
            New requests for {id} are answered with 404. What runs goes on to its end. <Code>{source}</Code> stays on
            the disk.
          </p>
        </ConfirmDialog>
      )}
    </>
  );
}
