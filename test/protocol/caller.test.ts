// How what waits for a request (a model that is loaded, an image that is fetched) learns that its client has left.
import t from 'tap';
import type { Identity } from '../../src/shared/identity.js';
import { askerOf, unattendedAsker, type Caller } from '../../src/protocol/caller.js';

function client(): { caller: Caller; leave(): void; told(): number } {
  const callbacks: (() => void)[] = [];
  let left = false;
  return {
    caller: {
      identity: { organizationNumber: 7 } as unknown as Identity,
      requestId: 'req_1',
      endpoint: '/v1/chat/completions',
      shape: 'chat',
      receivedAt: 0,
      trace: null,
      get aborted() {
        return left;
      },
      onAborted: (callback) => {
        callbacks.push(callback);
      },
      setHeader: () => undefined,
      annotate: () => undefined,
    },
    leave: () => {
      left = true;
      for (const callback of callbacks) callback();
    },
    told: () => callbacks.length,
  };
}

t.test('a signal is made for whoever looks, once, and ends with the client', (t) => {
  const { caller, leave, told } = client();
  const asker = askerOf(caller);
  t.equal(told(), 0, 'nobody has looked');
  const { signal } = asker;
  t.equal(asker.signal, signal);
  t.same([told(), asker.organization, signal?.aborted], [1, 7, false]);
  leave();
  t.equal(signal?.aborted, true);
  t.end();
});

t.test('who looks after the client has left finds it so', (t) => {
  const { caller, leave } = client();
  const asker = askerOf(caller);
  leave();
  t.equal(asker.signal?.aborted, true);
  t.end();
});

t.test('where nobody can leave, or it does not matter, there is none', (t) => {
  const { caller, told } = client();
  t.equal(
    askerOf({
      identity: caller.identity,
      requestId: 'r',
      endpoint: '/',
      shape: 'chat',
      receivedAt: 0,
      trace: null,
      aborted: false,
      setHeader: () => undefined,
      annotate: () => undefined,
    }).signal,
    undefined,
  );
  t.equal(unattendedAsker(caller).signal, undefined);
  t.equal(told(), 0);
  t.end();
});
