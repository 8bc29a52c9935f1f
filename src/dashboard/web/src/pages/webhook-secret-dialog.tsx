// Dialog that shows an endpoint's signing secret. The server returns a secret only when it is created.
import type { ReactNode } from 'react';
import type { CreatedWebhook } from '../../../../shared/wire/webhooks.js';
import { Button } from '../components/button.js';
import { CodeBlock, CopyButton } from '../components/copy.js';
import { Dialog } from '../components/dialog.js';
import { Notice } from '../components/states.js';

const EXAMPLE = `from openai import OpenAI

client = OpenAI()  # reads OPENAI_API_KEY and OPENAI_WEBHOOK_SECRET

# body: the request's body as it was received
event = client.webhooks.unwrap(body, headers)
print(event.type, event.data.id)`;

export function WebhookSecretDialog({
  created,
  rotated,
  onClose,
}: {
  created: CreatedWebhook;
  rotated: boolean;
  onClose: () => void;
}): ReactNode {
  return (
    <Dialog
      title={rotated ? 'New signing secret' : 'Endpoint added'}
      sticky
      size="wide"
      onClose={onClose}
      footer={
        <Button variant="primary" onClick={onClose}>
          I have saved it
        </Button>
      }
    >
      <Notice tone="warn">Copy the signing secret now. It will not be shown again.</Notice>
      <div className="secret">
        <code data-secret>{created.secret}</code>
        <CopyButton text={created.secret} label="Copy secret" />
      </div>
      <p>Each request is signed with this secret. Check the signature before you trust the content:</p>
      <CodeBlock code={EXAMPLE} label="Python" />
    </Dialog>
  );
}
