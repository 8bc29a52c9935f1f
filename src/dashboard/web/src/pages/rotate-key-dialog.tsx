import { useState } from 'react';
import type { ReactNode } from 'react';
import type { ApiKeyObject, CreatedApiKey } from '../../../../shared/wire/api-keys.js';
import { api } from '../api.js';
import { Button } from '../components/button.js';
import { Dialog } from '../components/dialog.js';
import { Select } from '../components/field.js';
import { FormError, useAction } from '../components/form.js';
import { Code } from '../components/page.js';
import { keyHint } from '../format.js';
import { useOrganization } from '../session.js';

const OVERLAPS = [
  { value: '0', label: 'Revoke it immediately' },
  { value: '3600', label: '1 hour' },
  { value: '86400', label: '24 hours' },
  { value: '604800', label: '7 days' },
  { value: '2592000', label: '30 days' },
];

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
  const [overlap, setOverlap] = useState('86400');
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
      <Select
        label="Old key stays valid for"
        value={overlap}
        onChange={(event) => setOverlap(event.target.value)}
        options={OVERLAPS}
        error={action.errorOf('overlap_seconds')}
        hint="This gives you time to deploy the new key everywhere."
      />
      <FormError action={action} fields={['overlap_seconds']} />
    </Dialog>
  );
}
