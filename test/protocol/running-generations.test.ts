// Tests that the generations of a suspended organization or a revoked key end with an error, with or without a change
// notification.
import t, { type Test } from 'tap';
import { RunningGenerations } from '../../src/protocol/running-generations.js';
import { eventually } from '../e2e/monolith.js';

function bench({ teardown }: Pick<Test, 'teardown'>) {
  const suspended = new Set<string>();
  const revoked = new Set<string>();
  const looked: string[] = [];
  let tell: (organizationId: string | null) => void = () => undefined;
  const generations = new RunningGenerations(
    {
      runEnds: async (id, keyIds) => {
        looked.push(`${id}: ${keyIds.join(' ')}`);
        return (keyId) =>
          suspended.has(id) ? 'organization_suspended' : revoked.has(keyId) ? 'api_key_revoked' : null;
      },
      onChanged: (listener) => {
        tell = listener;
        return () => {
          tell = () => undefined;
        };
      },
    },
    (error) => {
      throw error;
    },
  );
  teardown(() => generations.close());
  const stopped: string[] = [];
  const add = (organizationId: string, keyId = 'key_a'): (() => void) =>
    generations.add(
      { organizationId, keyId },
      { stop: (error) => stopped.push(`${organizationId} ${keyId} ${(error as { code: string }).code}`) },
    );
  return { generations, suspended, revoked, looked, stopped, add, tell: (id: string | null) => tell(id) };
}

t.test('a change notification ends the generations of suspended organizations', async (t) => {
  const { suspended, looked, stopped, add, tell } = bench(t);
  add('one');
  add('two');
  suspended.add('one').add('two');
  tell('one');
  t.ok(await eventually(() => stopped.length > 0));
  t.same(
    [looked, stopped],
    [['one: key_a'], ['one key_a organization_suspended']],
    'no other organization is looked up',
  );
  tell(null);
  t.ok(await eventually(() => stopped.length > 2));
  t.same(stopped.slice(1).sort(), ['one key_a organization_suspended', 'two key_a organization_suspended']);
});

t.test('a revoked key ends only its own generations, with one lookup per organization', async (t) => {
  const { revoked, looked, stopped, add, tell } = bench(t);
  for (const key of ['key_a', 'key_b', 'key_b', 'playground']) add('one', key);
  revoked.add('key_b');
  tell('one');
  t.ok(await eventually(() => stopped.length > 1));
  t.same(
    [looked, stopped],
    [['one: key_a key_b playground'], ['one key_b api_key_revoked', 'one key_b api_key_revoked']],
  );
});

t.test('without a notification, organizations with running generations are checked every second', async (t) => {
  const { generations, suspended, looked, stopped, add } = bench(t);
  const ended = add('one');
  ended();
  add('two');
  t.equal(generations.size, 1);
  suspended.add('two');
  t.ok(await eventually(() => stopped.length > 0));
  t.same(
    [new Set(looked), stopped],
    [new Set(['two: key_a']), ['two key_a organization_suspended']],
    'organizations without running generations are not checked',
  );
});
