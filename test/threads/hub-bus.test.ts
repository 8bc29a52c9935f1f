import { setTimeout as sleep } from 'node:timers/promises';
import { MessageChannel } from 'node:worker_threads';
import t, { type Test } from 'tap';
import { HubBus, PortBus } from '../../src/server/workers/hub-bus.js';
import { eventually } from '../e2e/monolith.js';

/** A hub and its workers' buses, all on this thread. Messages pass through real ports. */
function star(t: Test, workers: number): { hub: HubBus; ends: PortBus[]; errors: string[] } {
  const errors: string[] = [];
  const onError = (error: unknown): void => {
    errors.push((error as Error).message);
  };
  const hub = new HubBus({ threads: workers, onError });
  const ends = Array.from({ length: workers }, (_, at) => {
    const { port1, port2 } = new MessageChannel();
    hub.add(at + 1, port1);
    return new PortBus(at + 1, port2, { threads: workers, onError });
  });
  // The ports do not keep the process alive, so the test has to.
  const alive = setInterval(() => undefined, 1_000);
  t.teardown(() => {
    clearInterval(alive);
    for (const end of ends) end.close();
    hub.close();
  });
  return { hub, ends, errors };
}

t.test('a published message reaches every other thread and not its sender', async (t) => {
  const { hub, ends } = star(t, 3);
  const heard: string[] = [];
  for (const [at, bus] of [hub, ...ends].entries())
    bus.on('response.logged', ({ id, ended }) => {
      heard.push(`${at}:${id}:${ended}`);
    });
  hub.publish('response.logged', { id: 'a', ended: false });
  ends[1]?.publish('response.logged', { id: 'b', ended: true });
  await eventually(() => heard.length >= 6);
  t.same(heard.sort(), ['0:b:true', '1:a:false', '1:b:true', '2:a:false', '3:a:false', '3:b:true']);
});

t.test('a thread replies when all of its listeners have finished', async (t) => {
  const { hub, ends } = star(t, 1);
  const finished: string[] = [];
  ends[0]?.on('operator.changed', async () => {
    await sleep(100);
    finished.push('models');
  });
  ends[0]?.on('operator.changed', () => {
    finished.push('adapters');
  });
  await hub.ask('operator.changed', {});
  t.same(finished, ['adapters', 'models']);
});

t.test('ask() collects the replies in time and skips threads without a listener', async (t) => {
  const { hub, ends } = star(t, 3);
  hub.on('metrics.collect', () => 'hub');
  ends[0]?.on('metrics.collect', () => Promise.resolve('one'));
  ends[1]?.on('metrics.collect', () => sleep(400, 'late'));
  t.same(await ends[2]?.ask('metrics.collect', {}, 100), ['hub', 'one']);
  t.same(await hub.ask('metrics.collect', {}, 100), ['one']);
  t.same(await hub.ask('metrics.collect', {}, 1_000), ['one', 'late']);
  t.same(await ends[0]?.ask('response.cancel', { id: 'x' }), [], 'no thread listens to this topic');
});

t.test('the listener added last replies, unless it was removed', async (t) => {
  const { hub, ends } = star(t, 1);
  const calls: string[] = [];
  ends[0]?.on('response.cancel', () => {
    calls.push('first');
    return false;
  });
  const stop = ends[0]?.on('response.cancel', () => {
    calls.push('second');
    return true;
  });
  t.same(await hub.ask('response.cancel', { id: 'x' }), [true]);
  stop?.();
  t.same(await hub.ask('response.cancel', { id: 'x' }), [false]);
  t.same(calls, ['first', 'second', 'first']);
});

t.test('a failing listener and a reply that cannot be cloned are reported and give no reply', async (t) => {
  const { hub, ends, errors } = star(t, 2);
  ends[0]?.on('metrics.collect', () => {
    throw new Error('broken listener');
  });
  ends[1]?.on('metrics.collect', () => () => undefined);
  t.same(await hub.ask('metrics.collect', {}, 1_000), []);
  t.equal(errors[0], 'broken listener');
  t.match(errors[1], /could not be cloned/);
  await t.rejects(hub.ask('metrics.collect', { odd: () => undefined } as never), { name: 'DataCloneError' });
});

t.test('a removed thread is not waited for, and another can take its index', async (t) => {
  const { hub, ends } = star(t, 2);
  let asked = false;
  ends[0]?.on('metrics.collect', () => {
    asked = true;
    return sleep(5_000, 'never', { ref: false });
  });
  ends[1]?.on('metrics.collect', () => 'two');
  const answers = hub.ask('metrics.collect', {}, 60_000);
  t.ok(await eventually(() => asked));
  hub.remove(1);
  t.same(await answers, ['two']);
  const { port1, port2 } = new MessageChannel();
  hub.add(1, port1);
  const again = new PortBus(1, port2, { threads: 2 });
  t.teardown(() => again.close());
  again.on('metrics.collect', () => 'one again');
  t.same((await hub.ask('metrics.collect', {})).sort(), ['one again', 'two']);
});

t.test('closing ends pending requests', async (t) => {
  const { hub, ends } = star(t, 1);
  hub.on('metrics.collect', () => sleep(5_000, 'never', { ref: false }));
  const answers = ends[0]?.ask('metrics.collect', {}, 60_000);
  ends[0]?.close();
  t.same(await answers, []);
});
