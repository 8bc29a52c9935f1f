// The user's saved presets and conversations, and those shared by the organization: save, open, share, rename, delete.
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import type { ReactNode } from 'react';
import type { ListPage } from '../../../../shared/wire/list.js';
import type { SavedContent, SavedItem } from '../../../../shared/wire/playground.js';
import { api, messageOf } from '../api.js';
import { Badge } from '../components/badge.js';
import { Button } from '../components/button.js';
import { CopyButton } from '../components/copy.js';
import { Dialog } from '../components/dialog.js';
import { Checkbox, Select, TextField } from '../components/field.js';
import { FormError, useAction } from '../components/form.js';
import { EmptyState, Loaded, Notice } from '../components/states.js';
import { date } from '../format.js';
import { useOrganization } from '../session.js';

const DAY_MS = 86_400_000;
const LASTS = [
  { value: '7', label: '7 days' },
  { value: '30', label: '30 days' },
  { value: '365', label: '1 year' },
  { value: '', label: 'until deleted' },
];

export const savedLink = (organizationId: string, id: string): string =>
  `${location.origin}/dashboard/shared/${organizationId}/${id}`;

export function SavedDialog({
  preset,
  conversation,
  onOpen,
  onClose,
}: {
  preset: SavedContent;
  /** Null if the conversation is empty. */
  conversation: SavedContent | null;
  onOpen: (item: SavedItem & { content: SavedContent }) => void;
  onClose: () => void;
}): ReactNode {
  const { id: organizationId, name: organizationName, path } = useOrganization();
  const key = ['organization', organizationId, 'saved'];
  const client = useQueryClient();
  const query = useQuery({
    queryKey: key,
    queryFn: async ({ signal }) => (await api.get<ListPage<SavedItem>>(`${path}/playground/saved`, {}, signal)).data,
    refetchOnMount: 'always',
  });
  const [kind, setKind] = useState<SavedItem['kind']>(conversation === null ? 'preset' : 'conversation');
  const [name, setName] = useState('');
  const [shared, setShared] = useState(false);
  const [days, setDays] = useState('30');
  const action = useAction();
  const changed = (): Promise<void> => client.invalidateQueries({ queryKey: key });
  const save = (): void => {
    void action
      .run(async () => {
        const content = kind === 'preset' || conversation === null ? preset : conversation;
        await api.post<SavedItem>(`${path}/playground/saved`, {
          kind,
          name,
          content,
          shared,
          expires_at: shared && days !== '' ? new Date(Date.now() + Number(days) * DAY_MS).toISOString() : null,
        });
        await changed();
      })
      .then((went) => {
        if (went) setName('');
      });
  };
  return (
    <Dialog title="Presets and conversations" size="wide" onClose={onClose} onSubmit={save}>
      <div className="form-row">
        <Select
          label="What to save"
          value={kind}
          onChange={(event) => setKind(event.target.value as SavedItem['kind'])}
          options={[
            { value: 'preset', label: 'Settings, as a preset' },
            ...(conversation === null ? [] : [{ value: 'conversation', label: 'Conversation' }]),
          ]}
        />
        <TextField
          label="Name"
          name="name"
          value={name}
          maxLength={128}
          error={action.errorOf('name')}
          onChange={(event) => setName(event.target.value)}
        />
      </div>
      <Checkbox
        label={`Share it with ${organizationName}`}
        hint="Only members of the organization can find it here or open its link."
        checked={shared}
        onChange={(event) => setShared(event.target.checked)}
      />
      {shared && (
        <Select label="Keep for" value={days} options={LASTS} onChange={(event) => setDays(event.target.value)} />
      )}
      <FormError action={action} fields={['name']} />
      <div>
        <Button type="submit" variant="primary" busy={action.busy} disabled={name.trim() === ''}>
          Save
        </Button>
      </div>
      <Loaded query={query}>
        {(items) =>
          items.length === 0 ? (
            <EmptyState icon="playground" title="Nothing saved yet" />
          ) : (
            <ul className="saved-list" aria-label="Saved items">
              {items.map((item) => (
                <Line key={item.id} item={item} onOpen={onOpen} onChanged={changed} />
              ))}
            </ul>
          )
        }
      </Loaded>
    </Dialog>
  );
}

function Line({
  item,
  onOpen,
  onChanged,
}: {
  item: SavedItem;
  onOpen: (item: SavedItem & { content: SavedContent }) => void;
  onChanged: () => Promise<void>;
}): ReactNode {
  const { id: organizationId, path, may } = useOrganization();
  const [draft, setDraft] = useState<string | null>(null);
  const [asking, setAsking] = useState(false);
  const [failure, setFailure] = useState<unknown>(null);
  const [busy, setBusy] = useState(false);
  const at = `${path}/playground/saved/${item.id}`;
  const run = (what: () => Promise<unknown>): void => {
    setBusy(true);
    setFailure(null);
    what()
      .then(onChanged)
      .then(() => {
        setDraft(null);
        setAsking(false);
      }, setFailure)
      .finally(() => setBusy(false));
  };
  const open = (): void => {
    setBusy(true);
    api
      .get<SavedItem & { content: SavedContent }>(at)
      .then(onOpen, setFailure)
      .finally(() => setBusy(false));
  };
  return (
    <li className="saved-line">
      <div className="saved-name">
        {draft === null ? (
          <strong>{item.name}</strong>
        ) : (
          <TextField
            label={`New name for ${item.name}`}
            hideLabel
            value={draft}
            autoFocus
            maxLength={128}
            onChange={(event) => setDraft(event.target.value)}
          />
        )}
        <span className="cell-sub">
          {item.kind === 'preset' ? 'Preset' : 'Conversation'}
          {item.own ? '' : ` of ${item.by}`}, {date(item.created_at)}
          {item.expires_at !== null && `, until ${date(item.expires_at)}`}
          {item.shared && (
            <>
              {' '}
              <Badge tone="ok">Shared</Badge>
            </>
          )}
        </span>
        {failure !== null && <Notice tone="danger">{messageOf(failure)}</Notice>}
      </div>
      <div className="saved-actions">
        {draft !== null && (
          <>
            <Button
              size="small"
              variant="primary"
              busy={busy}
              disabled={draft.trim() === ''}
              onClick={() => run(() => api.patch(at, { name: draft }))}
            >
              Save
            </Button>
            <Button size="small" onClick={() => setDraft(null)}>
              Cancel
            </Button>
          </>
        )}
        {asking && (
          <>
            <Button size="small" variant="danger" busy={busy} onClick={() => run(() => api.delete(at))}>
              Delete permanently
            </Button>
            <Button size="small" onClick={() => setAsking(false)}>
              Cancel
            </Button>
          </>
        )}
        {draft === null && !asking && (
          <>
            <Button size="small" aria-label={`Open ${item.name}`} busy={busy} onClick={open}>
              {item.kind === 'preset' ? 'Use' : 'Open'}
            </Button>
            {item.shared && (
              <CopyButton text={savedLink(organizationId, item.id)} label={`Copy the link to ${item.name}`} iconOnly />
            )}
            {item.own && (
              <Button
                size="small"
                aria-label={`${item.shared ? 'Stop sharing' : 'Share'} ${item.name}`}
                onClick={() => run(() => api.patch(at, { shared: !item.shared }))}
              >
                {item.shared ? 'Stop sharing' : 'Share'}
              </Button>
            )}
            {item.own && (
              <Button size="small" aria-label={`Rename ${item.name}`} onClick={() => setDraft(item.name)}>
                Rename
              </Button>
            )}
            {(item.own || may('admin')) && (
              <Button size="small" aria-label={`Delete ${item.name}`} onClick={() => setAsking(true)}>
                Delete
              </Button>
            )}
          </>
        )}
      </div>
    </li>
  );
}
