// The conversation so far. Keeps its end visible while a response grows, unless the user has scrolled up.
import { useEffect, useLayoutEffect, useRef, useState } from 'react';
import type { ReactNode } from 'react';
import { Button } from '../components/button.js';
import { TextArea } from '../components/field.js';
import { Icon } from '../components/icon.js';
import { CopyButton } from '../components/copy.js';
import { AnswerView } from './answer-view.js';
import { openCalls } from './conversation.js';
import type { Turn, UserTurn } from './conversation.js';
import { SeenPictures } from './seen-pictures.js';

interface Props {
  /** Name of the region, if there are several. */
  label?: string;
  turns: readonly Turn[];
  running: boolean;
  empty: ReactNode;
  /** Absent if currently not possible. */
  onRegenerate: (() => void) | undefined;
  onEdit: ((id: number, text: string) => void) | undefined;
  onResults: ((results: Record<string, string>) => void) | undefined;
}

export function Transcript({
  label = 'Messages',
  turns,
  running,
  empty,
  onRegenerate,
  onEdit,
  onResults,
}: Props): ReactNode {
  const box = useRef<HTMLDivElement>(null);
  const follows = useRef(true);
  const last = turns.at(-1);
  const waits = openCalls(turns).length > 0;
  const seen = useRef(last?.id);
  useLayoutEffect(() => {
    const element = box.current;
    if (last?.id !== seen.current) follows.current = true; // a message that was just sent is always scrolled into view
    seen.current = last?.id;
    // Before the first message is sent, the list is scrolled to the top of the suggestions.
    if (element !== null && follows.current) element.scrollTop = last === undefined ? 0 : element.scrollHeight;
  }, [turns, last]);
  useEffect(() => {
    const element = box.current;
    if (element === null) return undefined;
    // Keeps the end visible when a phone's keyboard opens.
    const observer = new ResizeObserver(() => {
      if (follows.current && seen.current !== undefined) element.scrollTop = element.scrollHeight;
    });
    observer.observe(element);
    return () => observer.disconnect();
  }, []);
  return (
    <>
      <h2 className="visually-hidden">{label}</h2>
      <div
        ref={box}
        className="transcript"
        tabIndex={0}
        role="region"
        aria-label={label}
        onScroll={({ currentTarget: { scrollTop, scrollHeight, clientHeight } }) => {
          follows.current = scrollHeight - scrollTop - clientHeight < 48;
        }}
      >
        {turns.length === 0 && empty}
        {turns.map((turn, index) =>
          turn.kind === 'user' ? (
            <UserView key={turn.id} turn={turn} model={askedAfter(turns, index)} onEdit={onEdit} />
          ) : (
            <AnswerView
              key={turn.id}
              answer={turn.answer}
              results={turn.results}
              {...(turn === last && waits && onResults !== undefined ? { onResults } : {})}
              {...(running
                ? {}
                : {
                    actions: (
                      <AnswerActions text={turn.answer.text} onRegenerate={turn === last ? onRegenerate : undefined} />
                    ),
                  })}
            />
          ),
        )}
      </div>
    </>
  );
}

/** The model that responded to the user message at `index`. */
function askedAfter(turns: readonly Turn[], index: number): string | null {
  const next = turns[index + 1];
  return next?.kind === 'answer' ? next.answer.model : null;
}

function AnswerActions({ text, onRegenerate }: { text: string; onRegenerate: (() => void) | undefined }): ReactNode {
  return (
    <>
      {text !== '' && <CopyButton text={text} label="Copy response" iconOnly />}
      {onRegenerate !== undefined && (
        <button type="button" className="icon-button" aria-label="Regenerate" title="Regenerate" onClick={onRegenerate}>
          <Icon name="refresh" />
        </button>
      )}
    </>
  );
}

/** `model`: the model that received the message. */
function UserView({
  turn,
  model,
  onEdit,
}: {
  turn: UserTurn;
  model: string | null;
  onEdit: ((id: number, text: string) => void) | undefined;
}): ReactNode {
  const [draft, setDraft] = useState<string | null>(null);
  const save = (): void => {
    if (draft === null || draft.trim() === '') return;
    onEdit?.(turn.id, draft);
    setDraft(null);
  };
  return (
    <div className="turn-frame user">
      <article className="turn user" aria-label="You">
        {turn.pictures.length > 0 && <SeenPictures pictures={turn.pictures} model={model} />}
        {draft === null ? (
          turn.text !== '' && <p>{turn.text}</p>
        ) : (
          <form
            className="turn-edit"
            onSubmit={(event) => {
              event.preventDefault();
              save();
            }}
          >
            <TextArea
              label="Edit message"
              hideLabel
              rows={3}
              value={draft}
              autoFocus
              onChange={(event) => setDraft(event.target.value)}
              onKeyDown={(event) => {
                if (event.key === 'Escape') setDraft(null);
                if (event.key === 'Enter' && !event.shiftKey && !event.nativeEvent.isComposing) {
                  event.preventDefault();
                  save();
                }
              }}
            />
            <div className="row">
              <Button type="submit" size="small" variant="primary" disabled={draft.trim() === ''}>
                Send edited message
              </Button>
              <Button size="small" onClick={() => setDraft(null)}>
                Cancel
              </Button>
              <span className="hint">Later messages will be removed.</span>
            </div>
          </form>
        )}
      </article>
      {draft === null && onEdit !== undefined && (
        <div className="turn-actions">
          <button
            type="button"
            className="icon-button"
            aria-label="Edit this message"
            title="Edit this message"
            onClick={() => setDraft(turn.text)}
          >
            <Icon name="edit" />
          </button>
        </div>
      )}
    </div>
  );
}
