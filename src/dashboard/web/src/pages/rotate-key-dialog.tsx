import { useState } from 'react';
import type { ReactNode } from 'react';
import type { ApiKeyObject, CreatedApiKey } from '../../../../shared/wire/api-keys.js';
import { api } from '../api.js';
import { Button } from '../components/button.js';
import { Dialog } from '../components/dialog.js';
import { FormError, useAction } from '../components/form.js';
import { Code } from '../components/page.js';
import { keyHint } from '../format.js';
import { useOrganization } from '../session.js';
import { DEFAULT_OVERLAP, OverlapSelect } from './overlap-select.js';

export function RotateKeyDialog({
  apiKey,
  onClose,
  onRotated,
}: {
  apiKey: ApiKeyObject;
  onClose: () => void;
  onRotated: (key: CreatedApiKey) => void;
}): ReactNode {
  const { path } = useOrganization();
  const action = useAction();
  const [overlap, setOverlap] = useState(DEFAULT_OVERLAP);
  const rotate = (): void => {
    void action.run(async () =>
      onRotated(
        await api.post<CreatedApiKey>(`${path}/api-keys/${apiKey.id}/rotate`, { overlap_seconds: Number(overlap) }),
      ),
    );
  };
  return (
    <Dialog
      title={`Rotate ${apiKey.name}`}
      onClose={onClose}
      onSubmit={rotate}
      footer={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button type="submit" variant="primary" busy={action.busy}>
            Create new secret
          </Button>
        </>
      }
    >
      <p>
        A new key with the same name and permissions replaces <Code>{keyHint(apiKey)}</Code>.
      </p>
      <OverlapSelect
        label="Old key stays valid for"
        hint="This gives you time to deploy the new key everywhere."
        value={overlap}
        onChange={setOverlap}
        error={action.errorOf('overlap_seconds')}
      />
      <FormError action={action} fields={['overlap_seconds']} />
    </Dialog>
  );
}
