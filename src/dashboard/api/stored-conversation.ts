// Converts a stored response, together with the earlier responses that it continues, to a conversation for the page,
// oldest first. It includes the text, but only a count of the images. Very long content is truncated and marked as
// such. No side effects.

import type { ChainedResponse, StoredItem } from '../../storage/response-store.js';
import type { ConversationItem, ConversationTurn, StoredConversation } from '../../shared/wire/stored-responses.js';

/** Maximum number of characters per item. */
const MAX_ITEM = 20_000;
/**
 * Maximum number of characters in total, counted from the newest response backwards. The response that reaches the
 * limit is shown completely, up to twice the limit.
 */
const MAX_ALL = 400_000;
/** Minimum number of characters that an item counts as, because many empty items also make a page long. */
const LEAST = 128;

export function conversationOf(responses: readonly ChainedResponse[]): StoredConversation {
  let left = MAX_ALL;
  const turns: ConversationTurn[] = [];
  for (const response of responses.toReversed()) {
    if (left <= 0) break;
    const shown = (items: readonly StoredItem[]): ConversationItem[] =>
      items
        .filter(({ repeats }) => repeats !== true)
        .toReversed()
        .map(({ item, images }) => {
          const one = shownItem(item, images?.length ?? 0, left > -MAX_ALL ? MAX_ITEM : 0);
          left -= Math.max(one.text.length, LEAST);
          return one;
        })
        .toReversed();
    const output = shown(response.output);
    const input = shown(response.input);
    turns.unshift({
      id: response.id,
      model: response.model,
      status: response.status,
      created_at: new Date(response.createdAt * 1000).toISOString(),
      input,
      output,
    });
  }
  return { object: 'conversation', turns, earlier: responses.length - turns.length };
}

type Item = Readonly<Record<string, unknown>>;

function shownItem(item: Item, images: number, most: number): ConversationItem {
  const whole = textOf(item);
  return {
    kind: kindOf(item),
    role: word(item['role']),
    name: word(item['name']),
    text: whole.slice(0, most),
    cut: whole.length > most,
    images: Math.max(images, partsOf(item['content']).filter(({ type }) => type === 'input_image').length),
  };
}

function kindOf({ type }: Item): ConversationItem['kind'] {
  const name = String(type ?? 'message');
  if (name === 'message') return 'message';
  if (name === 'reasoning') return 'reasoning';
  if (name.endsWith('_call_output')) return 'result';
  return name.endsWith('_call') ? 'call' : 'other';
}

function textOf(item: Item): string {
  switch (kindOf(item)) {
    case 'message':
      return texts(item['content']);
    case 'reasoning':
      return [texts(item['content']), texts(item['summary'])].filter((text) => text !== '').join('\n\n');
    case 'call':
      return typeof item['arguments'] === 'string'
        ? item['arguments']
        : typeof item['input'] === 'string'
          ? item['input']
          : JSON.stringify(item);
    case 'result':
      return typeof item['output'] === 'string' ? item['output'] : texts(item['output']);
    case 'other':
      return JSON.stringify(item);
  }
}

const partsOf = (content: unknown): Item[] =>
  Array.isArray(content) ? content.filter((part): part is Item => typeof part === 'object' && part !== null) : [];

const texts = (content: unknown): string =>
  typeof content === 'string'
    ? content
    : partsOf(content)
        .map((part) => part['text'] ?? part['refusal'])
        .filter((text) => typeof text === 'string')
        .join('\n');

const word = (value: unknown): string | null => (typeof value === 'string' ? value.slice(0, 128) : null);
