// Tests that the processes' shares of a limit add up to the limit, whichever process comes first.
import t from 'tap';
import { Processes } from '../../src/admission/shared/processes.js';

t.test('all shares together equal the limit and differ by at most one', (t) => {
  for (const count of [1, 2, 3, 7]) {
    const names = Array.from({ length: count }, (_, at) => `p${(at * 5) % count}`);
    const all = names.map((name) => {
      const processes = new Processes(name);
      processes.see([...names].reverse());
      return processes;
    });
    for (const limit of [0, 1, 2, 6, 7, 8, 100]) {
      const parts = all.map((one) => one.part(limit));
      t.equal(
        parts.reduce((sum, part) => sum + part, 0),
        limit,
        `${limit} among ${count}: ${parts}`,
      );
      t.ok(Math.max(...parts) - Math.min(...parts) <= 1);
    }
  }
  t.end();
});

t.test('a single process gets the whole limit, and counts itself whether or not Redis listed it', (t) => {
  const one = new Processes('b');
  t.equal(one.count, 1);
  t.same(one.partOf({ rpm: 5, tpm: null, concurrency: 0 }), { rpm: 5, tpm: null, concurrency: 0 });
  one.see(['c', 'a']);
  t.equal(one.count, 3);
  t.equal(one.part(4), 1, 'the process comes second in the order of names');
  one.see(['c', 'b']);
  t.equal(one.count, 2);
  t.same(one.partOf({ rpm: 5, tpm: 7, concurrency: null }), { rpm: 3, tpm: 4, concurrency: null });
  t.end();
});
