// Shows a stored response, and the earlier responses that it continues, as a conversation.
import { useQuery } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import type {
  ConversationItem,
  ConversationTurn,
  StoredConversation,
} from '../../../../shared/wire/stored-responses.js';
import { api } from '../api.js';
import { Badge } from '../components/badge.js';
import { Button } from '../components/button.js';
import { CopyButton } from '../components/copy.js';
import { Dialog } from '../components/dialog.js';
import { Time } from '../components/page.js';
import { Loaded, Notice } from '../components/states.js';
import { useOrganization } from '../session.js';

export function ResponseDialog({
  id,
  onDelete,
  onClose,
}: {
  id: string;
  onDelete: () => void;
  onClose: () => void;
}): ReactNode {
  const { id: organization, path } = useOrganization();
  const query = useQuery({
    queryKey: ['organization', organization, 'responses', 'one', id],
    queryFn: () => api.get<StoredConversation>(`${path}/responses/${id}`),
    staleTime: 60_000,
    retry: false,
  });
  return (
    <Dialog
      title="Stored response"
      size="wide"
      onClose={onClose}
      footer={
        <>
          <Button variant="danger" onClick={onDelete}>
            Delete
          </Button>
          <Button onClick={onClose}>Close</Button>
        </>
      }
    >
      <div className="row tight">
        <code className="id">{id}</code>
        <CopyButton text={id} label="Copy ID" iconOnly />
      </div>
      <Loaded query={query}>
        {({ turns, earlier }) => (
          <div className="stored-turns">
            {earlier > 0 && (
              <Notice>
                {earlier} earlier {earlier === 1 ? 'response is' : 'responses are'} not shown: the conversation is too
                long.
              </Notice>
            )}
            {turns.map((turn) => (
              <Turn key={turn.id} turn={turn} isLast={turn.id === id} />
            ))}
          </div>
        )}
      </Loaded>
    </Dialog>
  );
}

function Turn({ turn, isLast }: { turn: ConversationTurn; isLast: boolean }): ReactNode {
  return (
    <section aria-label={`Response ${turn.id}`}>
      {turn.input.map((item, at) => (
        <Item key={`in${at}`} item={item} />
      ))}
      {turn.output.map((item, at) => (
        <Item key={`out${at}`} item={item} />
      ))}
      <p className="hint row">
        {turn.model} <Time at={turn.created_at} />{' '}
        {turn.status !== 'completed' && <Badge tone="warn">{turn.status.replaceAll('_', ' ')}</Badge>}
        {!isLast && <code className="id">{turn.id}</code>}
      </p>
    </section>
  );
}

const KINDS: Record<ConversationItem['kind'], string> = {
  message: '',
  reasoning: 'Reasoning',
  call: 'Call of',
  result: 'Result',
  other: 'Other',
};
const ROLES: Record<string, string> = {
  user: 'User',
  assistant: 'Assistant',
  system: 'System',
  developer: 'Developer',
};

function Item({ item }: { item: ConversationItem }): ReactNode {
  const { kind, role, name, text, cut, images } = item;
  const head = kind === 'message' ? (ROLES[role ?? ''] ?? role ?? 'Message') : `${KINDS[kind]} ${name ?? ''}`.trim();
  return (
    <div className={`stored-item ${kind} ${role ?? ''}`}>
      <h3>{head}</h3>
      {(text !== '' || cut) && (
        <div className="stored-text">
          {text}
          {cut && <span className="muted"> … (truncated)</span>}
        </div>
      )}
      {images > 0 && (
        <p className="hint">
          {images} {images === 1 ? 'image' : 'images'}
        </p>
      )}
    </div>
  );
}
