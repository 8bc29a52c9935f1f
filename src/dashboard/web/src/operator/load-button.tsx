// Loads or unloads a served model.
import { useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import type { ReactNode } from 'react';
import type { DiskModel, DiskState, OperatorModel } from '../../../../shared/wire/models.js';
import { api, messageOf } from '../api.js';
import { Button } from '../components/button.js';
import { Dialog } from '../components/dialog.js';
import { Notice } from '../components/states.js';
import { useToast } from '../components/toasts.js';
import { MemoryPlan } from './memory-plan.js';

/** Button that unloads a model to free its memory, or loads it. */
export function LoadButton({
  model: { id, state },
  onDisk,
  disk,
}: {
  model: OperatorModel;
  /** The model's files, if they are in the hub's cache. */
  onDisk: DiskModel | undefined;
  disk: DiskState | undefined;
}): ReactNode {
  const client = useQueryClient();
  const toast = useToast();
  const [asking, setAsking] = useState(false);
  const [busy, setBusy] = useState(false);
  const [failure, setFailure] = useState<unknown>(null);
  if (state !== 'ready' && state !== 'idle' && state !== 'unloaded' && state !== 'failed') return null;
  const set = (action: 'drain' | 'load'): void => {
    setBusy(true);
    setFailure(null);
    api
      .post<OperatorModel>(`/operator/models/${encodeURIComponent(id)}/${action}`)
      .then(
        async () => {
          await client.invalidateQueries({ queryKey: ['operator', 'models'] });
          toast(action === 'drain' ? `Unloading ${id}` : `Loading ${id}`);
          setAsking(false);
        },
        (error: unknown) => {
          setFailure(error);
          if (action === 'load') toast(messageOf(error));
        },
      )
      .finally(() => setBusy(false));
  };
  if (state === 'unloaded' || state === 'failed')
    return (
      <>
        <Button
          size="small"
          aria-label={`Load ${id}`}
          busy={busy && !asking}
          onClick={() => (onDisk?.fits === 'later' ? setAsking(true) : set('load'))}
        >
          Load
        </Button>
        {asking && onDisk !== undefined && disk !== undefined && (
          <Dialog
            title={`Load ${id}?`}
            onClose={() => setAsking(false)}
            onSubmit={() => set('load')}
            footer={
              <>
                <Button onClick={() => setAsking(false)}>Cancel</Button>
                <Button type="submit" variant="primary" busy={busy}>
                  Load
                </Button>
              </>
            }
          >
            <MemoryPlan model={onDisk} disk={disk} />
            {failure !== null && <Notice tone="danger">{messageOf(failure)}</Notice>}
          </Dialog>
        )}
      </>
    );
  return (
    <>
      <Button size="small" aria-label={`Unload ${id}`} onClick={() => setAsking(true)}>
        Unload
      </Button>
      {asking && (
        <Dialog
          title={`Unload ${id}?`}
          onClose={() => setAsking(false)}
          onSubmit={() => set('drain')}
          footer={
            <>
              <Button onClick={() => setAsking(false)}>Cancel</Button>
              <Button type="submit" variant="danger" busy={busy}>
                Unload
              </Button>
            </>
          }
        >
          <p>
            New requests for {id} return 503 until it is loaded again. Running requests can finish first. The memory is
            then freed, unless another served name uses the same file.
          </p>
          {failure !== null && <Notice tone="danger">{messageOf(failure)}</Notice>}
        </Dialog>
      )}
    </>
  );
}
