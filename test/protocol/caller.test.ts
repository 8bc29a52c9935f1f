// Tests that work done for a request (loading a model, fetching an image) is notified when the request's client
// disconnects.
import t from 'tap';
import type { Identity } from '../../src/shared/identity.js';
import { contextOf, unattendedContext, type Caller } from '../../src/protocol/caller.js';

function client(): { caller: Caller; leave(): void; told(): number } {
  const callbacks: (() => void)[] = [];
  let left = false;
  return {
    caller: {
      identity: { organizationNumber: 7 } as unknown as Identity,
      requestId: 'req_1',
      endpoint: '/v1/chat/completions',
      errorFormat: 'chat',
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

t.test('the abort signal is created once, on first use, and aborted when the client disconnects', (t) => {
  const { caller, leave, told } = client();
  const asker = contextOf(caller);
  t.equal(told(), 0, 'the signal is not created before its first use');
  const { signal } = asker;
  t.equal(asker.signal, signal);
  t.same([told(), asker.organization, signal?.aborted], [1, 7, false]);
  leave();
  t.equal(signal?.aborted, true);
  t.end();
});

t.test('a signal requested after the disconnect is already aborted', (t) => {
  const { caller, leave } = client();
  const asker = contextOf(caller);
  leave();
  t.equal(asker.signal?.aborted, true);
  t.end();
});

t.test('there is no signal if the client cannot disconnect or a disconnect does not matter', (t) => {
  const { caller, told } = client();
  t.equal(
    contextOf({
      identity: caller.identity,
      requestId: 'r',
      endpoint: '/',
      errorFormat: 'chat',
      receivedAt: 0,
      trace: null,
      aborted: false,
      setHeader: () => undefined,
      annotate: () => undefined,
    }).signal,
    undefined,
  );
  t.equal(unattendedContext(caller).signal, undefined);
  t.equal(told(), 0);
  t.end();
});
