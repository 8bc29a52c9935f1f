// Checks a stream of response events independently of the encoder: order, numbering, ids, and that the deltas add up to
// the complete response (section 5 of the contract).
import assert from 'node:assert/strict';

export interface Item {
  id: string;
  type: string;
  status: string;
  [field: string]: unknown;
}
export interface Resource {
  id: string;
  status: string;
  output: Item[];
  usage: { output_tokens: number } | null;
  error: { code: string } | null;
  [field: string]: unknown;
}
export interface Event {
  type: string;
  sequence_number: number;
  response?: Resource;
  item?: Item;
  item_id?: string;
  output_index?: number;
  content_index?: number;
  summary_index?: number;
  delta?: string;
  text?: string;
  arguments?: string;
  input?: string;
  logprobs?: unknown[];
  part?: Part;
}
interface Part {
  type: string;
  text: string;
  logprobs?: unknown[];
}

export interface Names {
  reasoning: 'response.reasoning' | 'response.reasoning_text' | 'response.reasoning_summary_text';
}

/** Returns the resource in the last event. Throws AssertionError if the stream is invalid. */
export function checkStream(events: readonly Event[], names: Names, { background = false } = {}): Resource {
  events.forEach((event, index) => assert.equal(event.sequence_number, index, 'events are numbered without gaps'));
  const lifecycle = background
    ? ['response.created', 'response.queued', 'response.in_progress']
    : ['response.created', 'response.in_progress'];
  const reader = new Reader(events);
  const { id } = reader.next('response.created').response!;
  for (const type of lifecycle.slice(1)) assert.equal(reader.next(type).response!.id, id);

  const items: Item[] = [];
  while (reader.peek() === 'response.output_item.added') items.push(readItem(reader, items.length, names));
  if (reader.peek() === 'error') reader.next('error');
  const last = reader.next();
  assert.match(last.type, /^response\.(completed|incomplete|failed)$/);
  assert.equal(reader.peek(), null, 'no event follows the last one');
  const response = last.response!;
  assert.equal(response.id, id);
  assert.equal(`response.${response.status}`, last.type);
  assert.deepEqual(response.output, items, 'the final output equals the announced items in order');
  assert.ok(
    items.slice(0, -1).every(({ status }) => status === 'completed'),
    'only the last item can be incomplete',
  );
  if (response.status === 'completed') assert.ok(items.every(({ status }) => status === 'completed'));
  const ids = items.flatMap((item) => [item.id, ...(typeof item['call_id'] === 'string' ? [item['call_id']] : [])]);
  assert.equal(new Set(ids).size, ids.length, 'ids are unique');
  return response;
}

class Reader {
  #at = 0;
  constructor(private readonly events: readonly Event[]) {}
  peek(): string | null {
    return this.events[this.#at]?.type ?? null;
  }
  next(type?: string): Event {
    const event = this.events[this.#at++];
    assert.ok(event !== undefined, 'the stream ended early');
    if (type !== undefined) assert.equal(event.type, type);
    return event;
  }
}

function readItem(reader: Reader, index: number, names: Names): Item {
  const { item: added, output_index: at } = reader.next('response.output_item.added');
  assert.equal(at, index);
  assert.equal(added!.status, 'in_progress');
  const within = (event: Event): Event => {
    assert.equal(event.item_id, added!.id);
    assert.equal(event.output_index, index);
    return event;
  };
  let pieces = '';
  const take = (type: string): void => {
    while (reader.peek() === type) pieces += within(reader.next(type)).delta!;
  };
  switch (added!.type) {
    case 'function_call':
      take('response.function_call_arguments.delta');
      assert.equal(within(reader.next('response.function_call_arguments.done')).arguments, pieces);
      break;
    case 'custom_tool_call':
      take('response.custom_tool_call_input.delta');
      assert.equal(within(reader.next('response.custom_tool_call_input.done')).input, pieces);
      break;
    case 'message': {
      const logprobs: unknown[] = [];
      assert.equal(within(reader.next('response.content_part.added')).content_index, 0);
      while (reader.peek() === 'response.output_text.delta') {
        const event = within(reader.next());
        pieces += event.delta!;
        logprobs.push(...event.logprobs!);
      }
      const done = within(reader.next('response.output_text.done'));
      assert.deepEqual([done.text, done.logprobs], [pieces, logprobs]);
      assert.deepEqual(within(reader.next('response.content_part.done')).part, {
        type: 'output_text',
        text: pieces,
        annotations: [],
        logprobs,
      });
      break;
    }
    case 'reasoning': {
      const summary = names.reasoning === 'response.reasoning_summary_text';
      const part = summary ? 'response.reasoning_summary_part' : 'response.content_part';
      const place = (event: Event): unknown => within(event)[summary ? 'summary_index' : 'content_index'];
      assert.equal(place(reader.next(`${part}.added`)), 0);
      take(`${names.reasoning}.delta`);
      assert.equal(within(reader.next(`${names.reasoning}.done`)).text, pieces);
      assert.equal(within(reader.next(`${part}.done`)).part!.text, pieces);
      break;
    }
    default:
      assert.fail(`unexpected item of type ${added!.type}`);
  }
  const { item, output_index: doneAt } = reader.next('response.output_item.done');
  assert.equal(doneAt, index);
  assert.equal(item!.id, added!.id);
  assert.equal(item!['call_id'], added!['call_id']);
  assert.match(item!.status, /^(completed|incomplete)$/);
  assert.equal(textOf(item!), pieces, 'the deltas add up to the item');
  return item!;
}

/** Returns the text of an item of any type. */
export function textOf(item: Item): string {
  if (item.type === 'function_call') return item['arguments'] as string;
  if (item.type === 'custom_tool_call') return item['input'] as string;
  const parts = (list: unknown): string => ((list ?? []) as Part[]).map(({ text }) => text).join('');
  return parts(item['content']) + parts(item['summary']);
}
