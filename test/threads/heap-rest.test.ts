// When a thread's heap is collected as a whole: once it has rested, not while it is asked something.
import { once } from 'node:events';
import { Worker } from 'node:worker_threads';
import t from 'tap';
import { collectAll, HeapRest, TAKES_OVER } from '../../src/server/workers/heap-rest.js';

t.test('a minute after the last request, and once', (t) => {
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
  t.same([after(59), after(1), after(600)], [0, 1, 1], 'what a start leaves behind goes, and then there is nothing');
  work.answered++;
  t.same([after(5), after(59), after(1), after(600)], [1, 1, 2, 2], 'a request has been answered');
  work.inFlight++;
  t.same([after(60), after(600)], [2, 2], 'one is under way');
  work.inFlight--;
  t.same([after(59), after(1)], [2, 3]);
  for (let at = 0; at < 100; at++) {
    work.answered++;
    after(30);
  }
  t.equal(collections, 3, 'as long as somebody asks now and then there is none');
  able = false;
  t.same([after(60), after(5)], [4, 5], 'what came to nothing is tried at the next look');
  able = true;
  t.same([after(5), after(600)], [6, 6]);
  t.end();
});

t.test(
  'everything that can go has gone, and nobody else can ask for that',
  { skip: TAKES_OVER ? false : 'V8 does it by itself' },
  async (t) => {
    const make = (): WeakRef<object> => new WeakRef({ of: 'nobody' });
    const refs = Array.from({ length: 100 }, make);
    await new Promise((turn) => {
      setImmediate(turn);
    }); // what is referred to so lives to the end of its turn
    collectAll();
    t.ok(refs.filter((ref) => ref.deref() !== undefined).length < 5, 'one may be on the stack still');
    t.equal((globalThis as { gc?: unknown }).gc, undefined);
  },
);

t.test(
  "threads that collect at once are in nobody's way",
  { skip: TAKES_OVER ? false : 'V8 does it by itself' },
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
