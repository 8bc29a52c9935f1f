// The user's saved presets and conversations, and those shared by the organization: open, share, rename, delete.
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import type { ReactNode } from 'react';
import type { ListPage } from '../../../../shared/wire/list.js';
import type { SavedContent, SavedItem } from '../../../../shared/wire/playground.js';
import { api, messageOf } from '../api.js';
import { Badge } from '../components/badge.js';
import { Button } from '../components/button.js';
import { CopyButton } from '../components/copy.js';
import { TextField } from '../components/field.js';
import { EmptyState, Loaded, Notice } from '../components/states.js';
import { date } from '../format.js';
import { useOrganization } from '../session.js';
import { savedKey, savedLink } from './saved-items.js';

export function SavedList({ onOpen }: { onOpen: (item: SavedItem & { content: SavedContent }) => void }): ReactNode {
  const { id: organizationId, path } = useOrganization();
  const client = useQueryClient();
  const query = useQuery({
    queryKey: savedKey(organizationId),
    queryFn: async ({ signal }) => (await api.get<ListPage<SavedItem>>(`${path}/playground/saved`, {}, signal)).data,
    refetchOnMount: 'always',
  });
  const changed = (): Promise<void> => client.invalidateQueries({ queryKey: savedKey(organizationId) });
  return (
    <Loaded query={query}>
      {(items) =>
        items.length === 0 ? (
          <EmptyState icon="playground" title="Nothing saved yet">
            Use <strong>Save</strong> to keep settings as a preset, or to keep or share a conversation.
          </EmptyState>
        ) : (
          <ul className="saved-list" aria-label="Saved items">
            {items.map((item) => (
              <Line key={item.id} item={item} onOpen={onOpen} onChanged={changed} />
            ))}
          </ul>
        )
      }
    </Loaded>
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
            <Button
              size="small"
              aria-label={`${item.kind === 'preset' ? 'Use' : 'Open'} ${item.name}`}
              busy={busy}
              onClick={open}
            >
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
