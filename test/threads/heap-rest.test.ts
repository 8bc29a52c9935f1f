// Tests that an HTTP worker runs a full garbage collection once it has been idle, but not while it is serving requests.
import { once } from 'node:events';
import { Worker } from 'node:worker_threads';
import t from 'tap';
import { collectAll, HeapRest, TAKES_OVER } from '../../src/server/workers/heap-rest.js';

t.test('collects once, a minute after the last request', (t) => {
  const work = { inFlight: 0, answered: 0 };
  let now = 0,
    collections = 0,
    able = true;
  const rest = new HeapRest(
    work,
    () => {
      collections++;
      return able;
    },
    () => now,
  );
  t.teardown(() => rest.close());
  const after = (seconds: number): number => {
    now += seconds * 1_000;
    rest.look();
    return collections;
  };
  t.same([after(59), after(1), after(600)], [0, 1, 1], 'garbage from startup is collected once');
  work.answered++;
  t.same([after(5), after(59), after(1), after(600)], [1, 1, 2, 2], 'a request has been served');
  work.inFlight++;
  t.same([after(60), after(600)], [2, 2], 'a request is running');
  work.inFlight--;
  t.same([after(59), after(1)], [2, 3]);
  for (let at = 0; at < 100; at++) {
    work.answered++;
    after(30);
  }
  t.equal(collections, 3, 'occasional requests prevent a collection');
  able = false;
  t.same([after(60), after(5)], [4, 5], 'a failed collection is repeated at the next check');
  able = true;
  t.same([after(5), after(600)], [6, 6]);
  t.end();
});

t.test(
  'collects all unreachable objects without exposing gc to other code',
  { skip: TAKES_OVER ? false : 'V8 collects by itself' },
  async (t) => {
    const make = (): WeakRef<object> => new WeakRef({ of: 'nobody' });
    const refs = Array.from({ length: 100 }, make);
    await new Promise((turn) => {
      setImmediate(turn);
    }); // WeakRef targets stay alive until the end of the current turn
    collectAll();
    t.ok(
      refs.filter((ref) => ref.deref() !== undefined).length < 5,
      'all but a few objects that may still be on the stack are collected',
    );
    t.equal((globalThis as { gc?: unknown }).gc, undefined);
  },
);

t.test(
  "concurrent collections in several threads don't interfere",
  { skip: TAKES_OVER ? false : 'V8 collects by itself' },
  async (t) => {
    const module = new URL('../../src/server/workers/heap-rest.js', import.meta.url).href;
    const work = `import(${JSON.stringify(module)}).then(({ collectAll }) => { let done = 0; for (let at = 0; at < 60; at++) if (collectAll()) done++; require('node:worker_threads').parentPort.postMessage(done); })`;
    const done = await Promise.all(
      Array.from({ length: 4 }, async () => ((await once(new Worker(work, { eval: true }), 'message')) as [number])[0]),
    );
    t.ok(
      done.every((count) => count > 0),
      `${done.join(', ')} of 60`,
    );
  },
);
