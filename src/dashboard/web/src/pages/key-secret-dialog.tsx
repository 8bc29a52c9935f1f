// Shows a key's secret once, after the key has been created or rotated.
import type { ReactNode } from 'react';
import type { CreatedApiKey } from '../../../../shared/wire/api-keys.js';
import { Button } from '../components/button.js';
import { CopyButton } from '../components/copy.js';
import { Dialog } from '../components/dialog.js';
import { SnippetTabs } from '../components/snippet-tabs.js';
import { Notice } from '../components/states.js';
import { useModels } from '../queries.js';
import { firstModel } from './overview.js';

export function KeySecretDialog({
  created,
  rotated,
  onClose,
}: {
  created: CreatedApiKey;
  rotated: boolean;
  onClose: () => void;
}): ReactNode {
  const models = useModels();
  const model = created.models.includes('*') ? firstModel(models.data) : (created.models[0] ?? firstModel(models.data));
  return (
    <Dialog
      title={rotated ? `New secret for ${created.name}` : `${created.name} created`}
      sticky
      size="wide"
      onClose={onClose}
      footer={
        <Button variant="primary" onClick={onClose}>
          I have saved it
        </Button>
      }
    >
      <Notice tone="warn">Copy the key now. It will not be shown again.</Notice>
      <div className="secret">
        <code data-secret>{created.secret}</code>
        <CopyButton text={created.secret} label="Copy key" />
      </div>
      <SnippetTabs apiKey={created.secret} model={model} />
    </Dialog>
  );
}
