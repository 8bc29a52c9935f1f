// Two dialogs: one that serves a downloaded model under a name and optionally loads it immediately, and one that stops
// serving a model.
import { useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import type { ReactNode } from 'react';
import type { DiskModel, DiskState, OperatorModel } from '../../../../shared/wire/models.js';
import { api } from '../api.js';
import { Button } from '../components/button.js';
import { ConfirmDialog, Dialog } from '../components/dialog.js';
import { Checkbox, TextField } from '../components/field.js';
import { FormError, useAction } from '../components/form.js';
import { Code } from '../components/page.js';
import { useToast } from '../components/toasts.js';
import { MemoryPlan } from './memory-plan.js';

/** Suggests a name for a repository's model: the repository name without packaging suffixes. */
function nameFor(model: string): string {
  return model
    .replace(/^[^/]*\//, '')
    .replace(/[:@].*$/s, '')
    .replace(/[-_.]?gguf$/i, '')
    .toLowerCase();
}

export function ServeDialog({
  model,
  disk,
  onClose,
}: {
  model: DiskModel;
  disk: DiskState;
  onClose: () => void;
}): ReactNode {
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
        toast(now ? `Loading ${id}` : `${id} is now served and loads on demand`);
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
        hint="The model name to use in requests. The model is still served after a restart."
        onChange={(event) => setName(event.target.value)}
      />
      <TextField
        label="Unload after (minutes)"
        name="idle_minutes"
        optional
        inputMode="numeric"
        value={idle}
        error={action.errorOf('idle_minutes')}
        hint="Without requests. Leave empty to unload only when another model needs the memory."
        onChange={(event) => setIdle(event.target.value)}
      />
      <Checkbox
        label="Load it now"
        hint="Otherwise, the first request triggers the load and waits for it."
        checked={now}
        onChange={(event) => setNow(event.target.checked)}
      />
      <MemoryPlan model={model} disk={disk} />
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
    toast(`${id} is no longer served`);
  };
  return (
    <>
      <Button size="small" aria-label={`Stop serving ${id}`} onClick={() => setAsking(true)}>
        Stop serving
      </Button>
      {asking && (
        <ConfirmDialog
          title={`Stop serving ${id}?`}
          confirm="Stop serving"
          danger
          onConfirm={unserve}
          onClose={() => setAsking(false)}
        >
          <p>
            New requests for {id} will return 404. Running requests finish normally. <Code>{source}</Code> stays on
            disk.
          </p>
        </ConfirmDialog>
      )}
    </>
  );
}
