// Tests that validating long lists in slices before parsing the request gives the same result as parsing alone, and
// that valid items are not validated twice.
import t from 'tap';
import { ApiError } from '../../src/shared/errors.js';
import { validateChatInSlices, parseChat } from '../../src/protocol/chat-completions/parse.js';
import { MAX_FAULTY_ENTRIES } from '../../src/protocol/validate-in-slices.js';
import { validateMessagesInSlices, parseMessages } from '../../src/protocol/messages/parse.js';
import { validateCreateInSlices, parseCreate } from '../../src/protocol/responses/parse.js';
import { KeyRing } from '../../src/accounts/sealing/key-ring.js';
import { KeySealer } from '../../src/accounts/sealing/key-sealer.js';

const sealer = new KeySealer(new KeyRing([Buffer.alloc(32, 1)]), ['m']);
const organizationId = 'org_test';
type Body = Record<string, unknown>;

const formats: {
  name: string;
  list: string;
  body(entries: unknown[]): Body;
  ahead(body: unknown): Iterator<unknown> | null;
  parse(body: unknown): unknown;
}[] = [
  {
    name: 'chat completions',
    list: 'messages',
    body: (messages) => ({ model: 'm', messages }),
    ahead: validateChatInSlices,
    parse: (body) => parseChat(body).content({ maxN: 8 }).request.messages,
  },
  {
    name: 'messages',
    list: 'messages',
    body: (messages) => ({ model: 'm', max_tokens: 9, messages }),
    ahead: validateMessagesInSlices,
    parse: (body) =>
      parseMessages(body, { sealer, foreignThinking: 'reject', organizationId }, 'generate').content().request.messages,
  },
  {
    name: 'responses',
    list: 'input',
    body: (input) => ({ model: 'm', input }),
    ahead: validateCreateInSlices,
    parse: (body) => {
      const parsed = parseCreate(body, { organizationId, sealer });
      return parsed.references.length;
    },
  },
];

function outcome(parse: () => unknown): string {
  try {
    return JSON.stringify(parse());
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    return `${error.status} ${error.code} ${error.param} ${error.message}`;
  }
}

const through = (work: Iterator<unknown> | null): number => {
  let steps = 0;
  while (work?.next().done === false) steps++;
  return steps;
};

const sound = (count: number): unknown[] =>
  Array.from({ length: count }, (_, i) => ({ role: i % 2 === 0 ? 'user' : 'assistant', content: `number ${i}` }));
const shape = 7; // not an object
const content = { role: 'user', content: [{ type: 'odd' }] };

for (const { name, list, body, ahead, parse } of formats) {
  t.test(`${name}: validation in slices gives the same outcome as parsing`, async (t) => {
    const lists: [string, unknown[]][] = [
      ['sound', sound(50)],
      ['a list of one item', sound(1)],
      ['empty', []],
      ['a fault at the beginning', [shape, ...sound(20)]],
      ['a fault at the end', [...sound(20), shape]],
      ['a fault in the content', [...sound(3), content, ...sound(20)]],
      ['a fault in the content, then in the shape', [...sound(3), content, ...sound(20), shape]],
      [
        'very many faults',
        [...sound(2), ...new Array<unknown>(MAX_FAULTY_ENTRIES + 20).fill(content), ...sound(2), shape],
      ],
      [
        'parts',
        [{ role: 'user', content: [{ type: name === 'responses' ? 'input_text' : 'text', text: 'a' }] }, ...sound(2)],
      ],
    ];
    for (const [what, entries] of lists) {
      const plain = outcome(() => parse(body(structuredClone(entries))));
      const checked = body(structuredClone(entries));
      through(ahead(checked));
      t.equal(
        outcome(() => parse(checked)),
        plain,
        what,
      );
    }
  });

  t.test(`${name}: malformed requests are left to the parser, which reports the error`, async (t) => {
    for (const odd of [null, 7, [], {}, { [list]: 'text' }, { [list]: {} }]) t.equal(ahead(odd), null);
  });

  t.test(`${name}: only items that were not valid are validated again`, async (t) => {
    const request = body([...sound(4), content, ...sound(4)]);
    t.equal(through(ahead(request)), 9, 'each item takes one step');
    const entries = request[list] as unknown[];
    for (const index of entries.keys()) if (index !== 4) entries[index] = shape;
    t.match(
      outcome(() => parse(request)),
      new RegExp(`${list}\\[4\\]`),
    );
    entries[4] = { role: 'user', content: 'sound now' };
    t.notMatch(
      outcome(() => parse(request)),
      /^4/,
    );
  });
}
