// Compares models side by side: one column per model, each with its own stream and with the usage below each response.
import { useEffect, useSyncExternalStore } from 'react';
import type { ReactNode } from 'react';
import type { DashboardModel } from '../../../../shared/wire/models.js';
import { Button } from '../components/button.js';
import { Icon } from '../components/icon.js';
import { openCalls } from './conversation.js';
import type { Ask, Dialogue } from './dialogue.js';
import { MAX_COLUMNS } from './dialogues.js';
import { Transcript } from './transcript.js';

export interface ComparedColumn {
  model: string;
  dialogue: Dialogue;
  ask: Ask | null;
}

/**
 * Combined state of several conversations: whether any of them is running, is waiting for a tool result, or has
 * messages.
 */
export function useAll(dialogues: readonly Dialogue[]): { running: boolean; waits: boolean; begun: boolean } {
  const subscribe = (listener: () => void): (() => void) => {
    const ends = dialogues.map((dialogue) => dialogue.subscribe(listener));
    return () => {
      for (const end of ends) end();
    };
  };
  const state = useSyncExternalStore(subscribe, () => {
    const states = dialogues.map((dialogue) => dialogue.state());
    return [
      states.some(({ running }) => running),
      states.some(({ turns }) => openCalls(turns).length > 0),
      states.some(({ turns }) => turns.length > 0),
    ]
      .map(Number)
      .join('');
  });
  return { running: state[0] === '1', waits: state[1] === '1', begun: state[2] === '1' };
}

export function Compared({
  columns,
  models,
  onModel,
  onRemove,
  onAdd,
}: {
  columns: readonly ComparedColumn[];
  models: readonly DashboardModel[];
  onModel: (column: number, model: string) => void;
  onRemove: (column: number) => void;
  onAdd: () => void;
}): ReactNode {
  return (
    <div className="compared" data-columns={columns.length}>
      {columns.map((column, at) => (
        <ColumnView
          key={at}
          column={column}
          models={models}
          onModel={(model) => onModel(at, model)}
          onRemove={() => onRemove(at)}
        />
      ))}
      {columns.length < MAX_COLUMNS && (
        <Button size="small" className="compared-add" aria-label="Add a model to compare" onClick={onAdd}>
          <Icon name="plus" />
        </Button>
      )}
    </div>
  );
}

function ColumnView({
  column: { model, dialogue, ask },
  models,
  onModel,
  onRemove,
}: {
  column: ComparedColumn;
  models: readonly DashboardModel[];
  onModel: (model: string) => void;
  onRemove: () => void;
}): ReactNode {
  const { turns, running } = useSyncExternalStore(dialogue.subscribe, dialogue.state);
  useEffect(() => () => dialogue.stop(), [dialogue]);
  return (
    <section className="compared-column" aria-label={`Column for ${model}`}>
      <header className="compared-head">
        <select
          className="input select"
          aria-label="Model of this column"
          value={model}
          disabled={running}
          onChange={(event) => onModel(event.target.value)}
        >
          {models.map(({ id, display_name: name }) => (
            <option key={id} value={id}>
              {name === id ? id : `${name} (${id})`}
            </option>
          ))}
        </select>
        <button type="button" className="icon-button" aria-label={`Remove ${model}`} onClick={onRemove}>
          <Icon name="close" />
        </button>
      </header>
      <Transcript
        label={`Messages of ${model}`}
        turns={turns}
        running={running}
        onEdit={undefined}
        onRegenerate={
          ask === null || running || turns.length === 0
            ? undefined
            : () => {
                void dialogue.regenerate(ask);
              }
        }
        onResults={
          ask === null || running
            ? undefined
            : (results) => {
                void dialogue.giveResults(results, ask);
              }
        }
        empty={<p className="state muted">The same prompt goes to every column.</p>}
      />
    </section>
  );
}
