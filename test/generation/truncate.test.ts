import t from 'tap';
import { droppableGroups, withoutUpTo } from '../../src/generation/local/truncate.js';
import type { Message } from '../../src/generation/types.js';

/**
 * Creates one message per letter: `s` (system), `u` (user), `a` (assistant), `c` (an assistant message with a call) or
 * `t` (tool).
 */
function conversation(roles: string): Message[] {
  return [...roles].map((role): Message => {
    switch (role) {
      case 's':
        return { role: 'system', content: role };
      case 'u':
        return { role: 'user', content: role };
      case 't':
        return { role: 'tool', content: role, toolCallId: 'x' };
      case 'c':
        return { role: 'assistant', content: null, toolCalls: [{ id: 'x', name: 'f', arguments: '{}' }] };
      default:
        return { role: 'assistant', content: role };
    }
  });
}

t.test('drops whole turns first, then steps of the last turn', async (t) => {
  const cases: [string, [number, number][]][] = [
    ['u', []],
    ['suau', [[1, 3]]],
    [
      'suacttauau',
      [
        [1, 7],
        [7, 9],
      ],
    ],
    ['uau', [[0, 2]]],
    [
      'auau',
      [
        [0, 1],
        [1, 3],
      ],
    ],
    [
      'uuu',
      [
        [0, 1],
        [1, 2],
      ],
    ],
    [
      'uauctctcta',
      [
        [0, 2],
        [3, 5],
        [5, 7],
        [7, 9],
      ],
    ],
    ['usau', [[0, 3]]],
  ];
  for (const [roles, groups] of cases) t.same(droppableGroups(conversation(roles)), groups, roles);
  t.same(droppableGroups(conversation('uctta')), [[1, 4]], 'the last message stays');
  t.same(droppableGroups(conversation('uctt')), [], 'the call that the last message belongs to stays');
});

t.test('system messages and the last user message always stay', async (t) => {
  const messages = conversation('suasuctcta');
  const roles = (cut: number): string =>
    withoutUpTo(messages, cut)
      .map(({ role }) => role[0])
      .join('');
  t.equal(roles(0), 'suasuatata');
  t.equal(roles(4), 'ssuatata');
  t.equal(roles(7), 'ssuata');
  t.equal(roles(9), 'ssua');
});
