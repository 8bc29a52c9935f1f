// Who generates for a suspended organization is told so and ends, whether somebody said that it is suspended or nobody did.
import t, { type Test } from 'tap';
import { RunningGenerations } from '../../src/protocol/running-generations.js';
import { eventually } from '../e2e/monolith.js';

function bench({ teardown }: Pick<Test, 'teardown'>) {
  const suspended = new Set<string>();
  const looked: string[] = [];
  let tell: (organizationId: string | null) => void = () => undefined;
  const generations = new RunningGenerations({
    organizations: {
      get: async (id) => {
        looked.push(id);
        return { status: suspended.has(id) ? 'suspended' : 'active' };
      },
    },
    onChanged: (listener) => {
      tell = listener;
      return () => { tell = () => undefined; };
    },
  }, (error) => { throw error; });
  teardown(() => generations.close());
  const stopped: string[] = [];
  const add = (id: string): (() => void) => generations.add(id, { stop: (error) => stopped.push(`${id} ${(error as { code: string }).code}`) });
  return { generations, suspended, looked, stopped, add, tell: (id: string | null) => tell(id) };
}

t.test('told of one organization, or of any: those of the suspended one end', async (t) => {
  const { suspended, looked, stopped, add, tell } = bench(t);
  add('one');
  add('two');
  suspended.add('one').add('two');
  tell('one');
  t.ok(await eventually(() => stopped.length > 0));
  t.same([looked, stopped], [['one'], ['one organization_suspended']], 'nobody else is looked at');
  tell(null);
  t.ok(await eventually(() => stopped.length > 2));
  t.same(stopped.slice(1).sort(), ['one organization_suspended', 'two organization_suspended']);
});

t.test('another process says nothing: it is looked at every second as long as something runs', async (t) => {
  const { generations, suspended, looked, stopped, add } = bench(t);
  const ended = add('one');
  ended();
  add('two');
  t.equal(generations.size, 1);
  suspended.add('two');
  t.ok(await eventually(() => stopped.length > 0));
  t.same([new Set(looked), stopped], [new Set(['two']), ['two organization_suspended']], 'whoever has nothing running is not looked up');
});
