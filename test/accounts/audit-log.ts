// Tests that every implementation of AuditLog must pass.
import t, { type Test } from 'tap';
import type { Actor, AuditLog } from '../../src/accounts/audit.js';

const ACTOR: Actor = { type: 'user', id: 'user_a', email: 'a@example.com', ip: '192.0.2.1' };

/** `open` returns a new, empty log that is removed when the test ends. */
export function auditLogTests(open: (t: Test) => Promise<AuditLog>): void {
  t.test("the audit log lists an organization's own entries, newest first, in pages", async (t) => {
    const audit = await open(t);
    for (let i = 0; i < 7; i++) {
      await audit.note('org_a', ACTOR, `entry ${i}`, 'target', { i });
      await new Promise((resolve) => setTimeout(resolve, 2)); // entries in the same millisecond have no order
    }
    await audit.note('org_aa', ACTOR, 'another', null);
    await audit.note(null, ACTOR, 'of the server', null);
    const first = await audit.list('org_a', 3, null);
    t.match(first.data, [
      {
        action: 'entry 6',
        target: 'target',
        actor: { type: 'user', id: 'user_a', email: 'a@example.com' },
        ip: '192.0.2.1',
        detail: { i: 6 },
      },
      { action: 'entry 5' },
      { action: 'entry 4' },
    ]);
    const second = await audit.list('org_a', 3, first.next);
    const third = await audit.list('org_a', 3, second.next);
    t.same(
      [...second.data, ...third.data].map(({ action }) => action),
      ['entry 3', 'entry 2', 'entry 1', 'entry 0'],
    );
    t.equal(third.next, null);
    t.same((await audit.list('org_a', 7, null)).next, null, 'a full last page reports no next page');
    t.same(
      (await audit.list(null, 10, null)).data.map(({ action }) => action),
      ['of the server'],
    );
    t.same(await audit.list('org_none', 10, null), { data: [], next: null });
    for (const [filter, actions] of [
      [{ action: 'entry 6' }, ['entry 6']],
      [{ action: 'entry' }, []],
      [{ target: 'other' }, []],
      [{ actor: 'A@example.com' }, ['entry 6', 'entry 5', 'entry 4', 'entry 3', 'entry 2', 'entry 1', 'entry 0']],
      [{ actor: 'user' }, []],
      [{ from: Date.parse(first.data[1]!.at), to: Date.parse(first.data[0]!.at) }, ['entry 5']],
      [{ from: Date.parse(first.data[0]!.at) }, ['entry 6']],
    ] as const)
      t.same(
        (await audit.list('org_a', 10, null, filter)).data.map(({ action }) => action),
        actions,
        JSON.stringify(filter),
      );
    await audit.note(
      'org_many',
      { ...ACTOR, type: 'command_line', id: null, email: null },
      'api_key.created',
      'key_1',
      {
        temporary: true,
      },
    );
    for (let i = 0; i < 450; i++) await audit.note('org_many', ACTOR, i % 150 === 0 ? 'member.joined' : 'other', null);
    const rare = await audit.list('org_many', 2, null, { action: 'member' });
    t.equal(rare.data.length, 2);
    t.equal((await audit.list('org_many', 2, rare.next, { action: 'member' })).data.length, 1, 'pages have no gaps');
    t.equal((await audit.list('org_many', 1, null, { actor: 'command_line' })).data.length, 1);
    t.same((await audit.list('org_many', 1, null, { action: 'api_key', temporary: false })).data, []);
    for (const after of ['', 'x', '1.aud_', first.data[0]!.id, '9'.repeat(400)])
      await t.rejects(audit.list('org_a', 3, after), { code: 'invalid_query_parameter', param: 'after' });
  });
}
