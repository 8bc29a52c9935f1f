// Saves the settings as a preset, or saves the conversation, either for the user alone or shared with the organization.
// A shared item has a link.
import { useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import type { ReactNode } from 'react';
import type { SavedContent, SavedItem } from '../../../../shared/wire/playground.js';
import { api } from '../api.js';
import { Button } from '../components/button.js';
import { CopyButton } from '../components/copy.js';
import { Dialog } from '../components/dialog.js';
import { Checkbox, Select, TextField } from '../components/field.js';
import { FormError, useAction } from '../components/form.js';
import { useToast } from '../components/toasts.js';
import { useOrganization } from '../session.js';
import { savedKey, savedLink } from './saved-items.js';

const DAY_MS = 86_400_000;
const LASTS = [
  { value: '7', label: '7 days' },
  { value: '30', label: '30 days' },
  { value: '365', label: '1 year' },
  { value: '', label: 'until deleted' },
];

export function SaveDialog({
  title,
  preset,
  conversation,
  onClose,
}: {
  /** The conversation's title, used as the suggested item name. */
  title: string;
  preset: SavedContent;
  /** Null if the conversation is empty. */
  conversation: SavedContent | null;
  onClose: () => void;
}): ReactNode {
  const { id: organizationId, name: organizationName, path } = useOrganization();
  const client = useQueryClient();
  const toast = useToast();
  const [kind, setKind] = useState<SavedItem['kind']>(conversation === null ? 'preset' : 'conversation');
  const [name, setName] = useState(conversation === null ? '' : title);
  const [shared, setShared] = useState(false);
  const [days, setDays] = useState('30');
  const [made, setMade] = useState<SavedItem | null>(null);
  const action = useAction();
  const save = (): void => {
    void action.run(async () => {
      const content = kind === 'preset' || conversation === null ? preset : conversation;
      const item = await api.post<SavedItem>(`${path}/playground/saved`, {
        kind,
        name,
        content,
        shared,
        expires_at: shared && days !== '' ? new Date(Date.now() + Number(days) * DAY_MS).toISOString() : null,
      });
      await client.invalidateQueries({ queryKey: savedKey(organizationId) });
      if (shared) setMade(item);
      else {
        toast(`${item.name} saved. Find it under History.`);
        onClose();
      }
    });
  };
  if (made !== null) {
    const link = savedLink(organizationId, made.id);
    return (
      <Dialog
        title={`${made.name} is shared`}
        onClose={onClose}
        footer={
          <Button variant="primary" onClick={onClose}>
            Done
          </Button>
        }
      >
        <p>Members of {organizationName} can open this link, and find the item under History.</p>
        <div className="secret">
          <code>{link}</code>
          <CopyButton text={link} label="Copy link" iconOnly />
        </div>
      </Dialog>
    );
  }
  return (
    <Dialog
      title="Save and share"
      onClose={onClose}
      onSubmit={save}
      footer={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button type="submit" variant="primary" busy={action.busy} disabled={name.trim() === ''}>
            {shared ? 'Save and share' : 'Save'}
          </Button>
        </>
      }
    >
      <TextField
        label="Name"
        name="name"
        value={name}
        maxLength={128}
        error={action.errorOf('name')}
        onChange={(event) => setName(event.target.value)}
      />
      <Select
        label="What to save"
        value={kind}
        onChange={(event) => setKind(event.target.value as SavedItem['kind'])}
        options={[
          ...(conversation === null ? [] : [{ value: 'conversation', label: 'Conversation and settings' }]),
          { value: 'preset', label: 'Settings only, as a preset' },
        ]}
      />
      <Checkbox
        label={`Share it with ${organizationName}`}
        hint="Only members of the organization can find it or open its link."
        checked={shared}
        onChange={(event) => setShared(event.target.checked)}
      />
      {shared && (
        <Select label="Keep for" value={days} options={LASTS} onChange={(event) => setDays(event.target.value)} />
      )}
      <FormError action={action} fields={['name']} />
    </Dialog>
  );
}
