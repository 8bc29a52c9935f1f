// Tests the affinity key, which lets a load balancer send all requests in a conversation to the same process.
import t from 'tap';
import type { Message } from '../../src/generation/types.js';
import { Affinity } from '../../src/protocol/affinity.js';

const affinity = new Affinity(Buffer.alloc(32, 1));
const user = (content: string): Message => ({ role: 'user', content });
const of = (messages: Message[], organization = 'org_a', model = 'm'): string =>
  affinity.of(organization, model, { messages });
const system: Message = { role: 'system', content: 'You help.' };

t.test('all requests of a conversation have the same key, and other conversations have different ones', (t) => {
  const first = of([system, user('Hello')]);
  t.match(first, /^[A-Za-z0-9_-]{22}$/);
  t.equal(
    of([system, user('Hello'), { role: 'assistant', content: 'Yes?' }, user('More.')]),
    first,
    'a later request of the conversation has the same key',
  );
  for (const [what, other] of Object.entries({
    user: of([system, user('Hallo')]),
    system: of([{ role: 'system', content: 'You do not.' }, user('Hello')]),
    organization: of([system, user('Hello')], 'org_b'),
    model: of([system, user('Hello')], 'org_a', 'n'),
    key: new Affinity(Buffer.alloc(32, 2)).of('org_a', 'm', { messages: [system, user('Hello')] }),
  }))
    t.not(other, first, what);
  t.not(of([user('a\nuser\nb')]), of([user('a'), user('b')]), 'message boundaries are part of the key');
  t.equal(
    of([user('x'.repeat(10_000))]),
    of([user(`${'x'.repeat(5_000)}y`)]),
    'only the first few pages of a long first message count',
  );
  t.equal(
    of([user('See')]),
    affinity.of('org_a', 'm', { messages: [{ role: 'user', content: [{ type: 'text', text: 'See' }] }] }),
  );
  t.not(
    affinity.of('org_a', 'm', { messages: [], raw: { kind: 'tokens', tokens: [1, 2], path: 'prompt' } }),
    affinity.of('org_a', 'm', { messages: [], raw: { kind: 'tokens', tokens: [1, 3], path: 'prompt' } }),
  );
  t.end();
});
