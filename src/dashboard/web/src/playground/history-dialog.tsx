// The playground's history: recent conversations in this browser, and saved or shared items.
import { useState } from 'react';
import type { ReactNode } from 'react';
import type { SavedContent, SavedItem } from '../../../../shared/wire/playground.js';
import { Button } from '../components/button.js';
import { Dialog } from '../components/dialog.js';
import { Time } from '../components/page.js';
import { EmptyState } from '../components/states.js';
import { Tabs } from '../components/tabs.js';
import { useMe, useOrganization } from '../session.js';
import { clearHistory, forget, historyOf } from './history.js';
import type { HistoryEntry } from './history.js';
import { SavedList } from './saved-list.js';

export function HistoryDialog({
  onOpenEntry,
  onOpenSaved,
  onClose,
}: {
  onOpenEntry: (entry: HistoryEntry) => void;
  onOpenSaved: (item: SavedItem & { content: SavedContent }) => void;
  onClose: () => void;
}): ReactNode {
  const [tab, setTab] = useState<'recent' | 'saved'>('recent');
  return (
    <Dialog title="History" size="wide" onClose={onClose}>
      <Tabs
        label="History"
        value={tab}
        onChange={setTab}
        tabs={[
          { value: 'recent', label: 'Recent', content: <Recent onOpen={onOpenEntry} /> },
          { value: 'saved', label: 'Saved and shared', content: <SavedList onOpen={onOpenSaved} /> },
        ]}
      />
    </Dialog>
  );
}

function Recent({ onOpen }: { onOpen: (entry: HistoryEntry) => void }): ReactNode {
  const { id: organizationId } = useOrganization();
  const { user } = useMe();
  const [entries, setEntries] = useState(() => historyOf(localStorage, user.id, organizationId));
  if (entries.length === 0)
    return (
      <EmptyState icon="history" title="No conversations yet">
        Conversations are kept in this browser until you sign out. Save one to keep it longer or to share it.
      </EmptyState>
    );
  return (
    <>
      <ul className="saved-list" aria-label="Recent conversations">
        {entries.map((entry) => (
          <li key={entry.id} className="saved-line">
            <div className="saved-name">
              <strong>{entry.title}</strong>
              <span className="cell-sub">
                {entry.content.columns.map(({ model }) => model).join(', ')}, <Time at={entry.at} />
              </span>
            </div>
            <div className="saved-actions">
              <Button size="small" aria-label={`Open ${entry.title}`} onClick={() => onOpen(entry)}>
                Open
              </Button>
              <Button
                size="small"
                variant="ghost"
                aria-label={`Delete ${entry.title}`}
                onClick={() => {
                  forget(localStorage, user.id, organizationId, entry.id);
                  setEntries(entries.filter(({ id }) => id !== entry.id));
                }}
              >
                Delete
              </Button>
            </div>
          </li>
        ))}
      </ul>
      <div className="row history-foot">
        <p className="hint">Kept in this browser until you sign out. Images are not kept.</p>
        <Button
          size="small"
          variant="ghost"
          onClick={() => {
            clearHistory(localStorage);
            setEntries([]);
          }}
        >
          Delete all
        </Button>
      </div>
    </>
  );
}
