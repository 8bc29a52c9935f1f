// Converts items that Codex writes for its own use and sends in every later turn of a thread. An item with text becomes
// the standard item with the same meaning. All other items are omitted. No side effects.
import type { OwnItem } from './items.js';
import type { WireItem } from './schema-items.js';

export type HelperItem = Extract<
  WireItem,
  {
    type:
      | 'agent_message'
      | 'agent_reasoning'
      | 'compaction_summary'
      | 'context_compaction'
      | 'ghost_snapshot'
      | 'other';
  }
>;

export interface ReadHelper {
  /** The converted item; null if the whole item was omitted. */
  item: OwnItem | null;
  /** Paths of the omitted items and parts. */
  leftOut: string[];
}

/** `opens`: returns whether this server can decrypt a summary. */
export function readHelperItem(item: HelperItem, path: string, opens: (sealed: string) => boolean): ReadHelper {
  switch (item.type) {
    case 'agent_message':
      return agentMessage(item, path);
    case 'agent_reasoning':
      if (!item.text) return { item: null, leftOut: [path] };
      return {
        item: { type: 'reasoning', id: item.id, summary: [], content: [{ type: 'reasoning_text', text: item.text }] },
        leftOut: [],
      };
    case 'compaction_summary':
    case 'context_compaction': {
      const { id, encrypted_content: sealed } = item;
      if (sealed == null || !opens(sealed)) return { item: null, leftOut: [path] };
      return { item: { type: 'compaction', id, encrypted_content: sealed }, leftOut: [] };
    }
    default:
      return { item: null, leftOut: [path] };
  }
}

/** A message from one agent to another contains a task or a report, so it becomes a user message. */
function agentMessage(
  { id, message, content }: Extract<HelperItem, { type: 'agent_message' }>,
  path: string,
): ReadHelper {
  const parts = typeof content === 'string' ? [{ text: content }] : (content ?? [{ text: message }]);
  const texts = parts.flatMap(({ text }) => (text ? [{ type: 'input_text' as const, text }] : []));
  if (texts.length === 0) return { item: null, leftOut: [path] };
  return {
    item: { type: 'message', role: 'user', id, content: texts },
    leftOut: parts.flatMap(({ text }, at) => (text == null ? [`${path}.content[${at}]`] : [])),
  };
}
