// Tests that resources are closed once, in reverse order, after a failed start or at shutdown.

import { setImmediate as turn } from 'node:timers/promises';
import t from 'tap';
import { DisposableStack } from '../../src/server/disposable-stack.js';

t.test('DisposableStack closes resources once, one after another, starting with the last', async (t) => {
  const closed: string[] = [];
  const close = await DisposableStack.opening((undo) => {
    undo.add(() => {
      closed.push('store');
    });
    undo.add(async () => {
      await turn();
      closed.push('usage');
    });
    undo.add(() => {
      closed.push('http');
    });
    return Promise.resolve(() => undo.run());
  });
  t.same(closed, []);
  await Promise.all([close(), close()]);
  await close();
  t.same(closed, ['http', 'usage', 'store']);
});

t.test('a failed start closes everything that was opened before it rejects', async (t) => {
  const closed: string[] = [];
  await t.rejects(
    DisposableStack.opening(async (undo) => {
      undo.add(() => {
        closed.push('lock');
      });
      undo.add(async () => {
        await turn();
        closed.push('service');
      });
      await turn();
      throw new Error('the port is taken');
    }),
    { message: 'the port is taken' },
  );
  t.same(closed, ['service', 'lock']);
});

t.test('a failing step does not stop the others and is reported at the end', async (t) => {
  const closed: string[] = [];
  const steps = (undo: DisposableStack): void => {
    undo.add(() => {
      closed.push('store');
    });
    undo.add(() => Promise.reject(new Error('second')));
    undo.add(() => {
      throw new Error('first');
    });
  };
  const undo = await DisposableStack.opening((all) => {
    steps(all);
    return Promise.resolve(all);
  });
  await t.rejects(undo.run(), { message: 'first' });
  await t.rejects(undo.run(), { message: 'first' });
  t.same(closed, ['store']);
  await t.rejects(
    DisposableStack.opening((all) => {
      steps(all);
      return Promise.reject(new Error('the port is taken'));
    }),
    { message: 'the port is taken' },
  );
  t.same(closed, ['store', 'store']);
});
