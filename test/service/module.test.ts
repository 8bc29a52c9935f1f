// Tests that a module closes its parts in reverse order, at shutdown or when it fails to open.

import t from 'tap';
import { openModule } from '../../src/server/module.js';

t.test('openModule returns the parts with close(), which closes them once, the last one first', async (t) => {
  const closed: string[] = [];
  const module = await openModule((undo) => {
    undo.add(() => {
      closed.push('writer');
    });
    undo.add(() => {
      closed.push('listener');
    });
    return { part: 1 };
  });
  t.equal(module.part, 1);
  t.same(closed, []);
  await Promise.all([module.close(), module.close()]);
  t.same(closed, ['listener', 'writer']);
});

t.test('a module that fails to open closes the parts opened so far and rejects with the error', async (t) => {
  const closed: string[] = [];
  await t.rejects(
    openModule((undo) => {
      undo.add(() => {
        closed.push('writer');
      });
      undo.add(() => {
        closed.push('listener');
      });
      throw new Error('the setting is invalid');
    }),
    { message: 'the setting is invalid' },
  );
  t.same(closed, ['listener', 'writer']);
});
