// Tests that a request whose pages never arrive is computed as soon as the worker is lost.
import t from 'tap';
import { TierClient } from '../../../src/engine/kv-tier/tier-client.js';
import { TierState } from '../../../src/engine/kv-tier/tier-state.js';

t.test('a lost worker does not hold up a request', async (t) => {
  const state = new TierState(new SharedArrayBuffer(4));
  state.set(true);
  const client = new TierClient({ process: 'test', thread: 0, mode: 'all', minTokens: 16, state });
  t.teardown(() => client.close());
  const tokens = new Int32Array(100);
  const from = performance.now();
  const waiting = client.prefetch('engine', { organization: 1, organizationId: 'org_a', tokens, spans: [] });
  state.set(false); // the worker has ended
  t.equal((await waiting).tokens, 0);
  t.ok(performance.now() - from < 5_000);
});
