import { useState } from 'react';
import type { ReactNode } from 'react';
import type { CreatedWebhook, WebhookObject } from '../../../../shared/wire/webhooks.js';
import { api } from '../api.js';
import { Button } from '../components/button.js';
import { Dialog } from '../components/dialog.js';
import { FormError, useAction } from '../components/form.js';
import { Code } from '../components/page.js';
import { useOrganization } from '../session.js';
import { DEFAULT_OVERLAP, OverlapSelect } from './overlap-select.js';

export function RotateSecretDialog({
  webhook,
  onClose,
  onRotated,
}: {
  webhook: WebhookObject;
  onClose: () => void;
  onRotated: (webhook: CreatedWebhook) => void;
}): ReactNode {
  const { path } = useOrganization();
  const action = useAction();
  const [overlap, setOverlap] = useState(DEFAULT_OVERLAP);
  const rotate = (): void => {
    void action.run(async () =>
      onRotated(
        await api.post<CreatedWebhook>(`${path}/webhooks/${webhook.id}/rotate`, { overlap_seconds: Number(overlap) }),
      ),
    );
  };
  return (
    <Dialog
      title="Replace the signing secret?"
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
        Requests to <Code>{webhook.url}</Code> are signed with a new secret.
      </p>
      <OverlapSelect
        label="Old secret stays valid for"
        hint="During this time, requests are signed with both secrets, so a program that has either secret accepts them."
        value={overlap}
        onChange={setOverlap}
        error={action.errorOf('overlap_seconds')}
      />
      <FormError action={action} fields={['overlap_seconds']} />
    </Dialog>
  );
}
