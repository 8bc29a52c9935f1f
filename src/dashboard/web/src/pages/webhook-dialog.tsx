// Dialog that creates a webhook endpoint, or changes an existing endpoint's URL and events.
import { useState } from 'react';
import type { ReactNode } from 'react';
import {
  EVENT_TYPES,
  type CreatedWebhook,
  type EventType,
  type WebhookObject,
} from '../../../../shared/wire/webhooks.js';
import { api } from '../api.js';
import { Button } from '../components/button.js';
import { Dialog } from '../components/dialog.js';
import { Checkbox, FieldSet, TextField } from '../components/field.js';
import { FormError, useAction } from '../components/form.js';
import { useOrganization } from '../session.js';

const LABELS: Readonly<Record<EventType, string>> = {
  'response.completed': 'A background response completed',
  'response.failed': 'A background response failed',
  'response.cancelled': 'A background response was cancelled',
  'response.incomplete': 'A background response ended early, for example at its token limit',
  'batch.completed': 'A batch completed',
  'batch.failed': 'A batch failed',
  'batch.expired': 'A batch expired',
  'batch.cancelled': 'A batch was cancelled',
};
const FIELDS = ['url', 'events'];

/** `webhook`: the endpoint to edit; null to create a new endpoint. */
export function WebhookDialog({
  webhook,
  onClose,
  onCreated,
  onSaved,
}: {
  webhook: WebhookObject | null;
  onClose: () => void;
  onCreated?: (webhook: CreatedWebhook) => void;
  onSaved?: () => void;
}): ReactNode {
  const { path } = useOrganization();
  const action = useAction();
  const [url, setUrl] = useState(webhook?.url ?? '');
  const [events, setEvents] = useState<readonly EventType[]>(webhook?.events ?? EVENT_TYPES);
  const [isMissing, setMissing] = useState(false);
  const save = (): void => {
    setMissing(events.length === 0);
    if (events.length === 0) return;
    const body = { url: url.trim(), events };
    void action.run(async () => {
      if (webhook === null) onCreated?.(await api.post<CreatedWebhook>(`${path}/webhooks`, body));
      else {
        await api.patch(`${path}/webhooks/${webhook.id}`, body);
        onSaved?.();
      }
    });
  };
  return (
    <Dialog
      title={webhook === null ? 'Add endpoint' : 'Edit endpoint'}
      onClose={onClose}
      onSubmit={save}
      footer={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button type="submit" variant="primary" busy={action.busy}>
            {webhook === null ? 'Add endpoint' : 'Save'}
          </Button>
        </>
      }
    >
      <TextField
        type="url"
        label="URL"
        value={url}
        maxLength={1024}
        autoComplete="off"
        spellCheck={false}
        placeholder="https://example.com/webhooks"
        hint="Redirects are not followed."
        onChange={(event) => setUrl(event.target.value)}
        error={action.errorOf('url')}
      />
      <FieldSet
        legend="Events"
        error={isMissing && events.length === 0 ? 'Select at least one event.' : action.errorOf('events')}
      >
        {EVENT_TYPES.map((type) => (
          <Checkbox
            key={type}
            label={<code>{type}</code>}
            hint={LABELS[type]}
            checked={events.includes(type)}
            onChange={(event) =>
              setEvents(EVENT_TYPES.filter((one) => (one === type ? event.target.checked : events.includes(one))))
            }
          />
        ))}
      </FieldSet>
      <FormError action={action} fields={FIELDS} />
    </Dialog>
  );
}
