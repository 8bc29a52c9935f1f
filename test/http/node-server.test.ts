// Repeats the tests of HTTP rules, framing, bodies, streams, WebSockets and timeouts with http.server "node".
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { NodeThreads, ThreadListener } from '../../src/http/node-threads.js';
import { testOnNewerNode } from '../support/newer-node.js';

t.setTimeout(300_000); // the machine may be busy
t.jobs = 3; // they wait more than they compute
for (const name of ['idle', 'framing', 'rules', 'reading', 'streaming', 'socket', 'large-answers'])
  testOnNewerNode(`http/${name}`);

t.test('the main thread listens only while no other thread does', async (t) => {
  let isMain = false;
  const threads = new NodeThreads(({ port }) => {
    isMain = true;
    return Promise.resolve(port);
  });
  const stopHere = (): void => {
    isMain = false;
  };
  const thread = (port: number | null): ThreadListener => {
    const one = new ThreadListener({ listen: () => Promise.resolve(port), stop: () => undefined });
    threads.add(one.remote);
    t.teardown(() => one.close());
    return one;
  };
  t.teardown(() => threads.close());
  const first = thread(1);
  t.equal(await threads.listen('::', 1, stopHere), 1);
  t.equal(isMain, false);
  threads.remove(first.remote);
  t.equal(isMain, true, 'the only thread has ended');
  const failing = thread(null);
  await sleep(20);
  t.equal(isMain, true, 'its successor cannot listen');
  threads.remove(failing.remote);
  thread(1);
  await sleep(20);
  t.equal(isMain, false, 'another successor listens');
});
