import t from 'tap';
import { QueuePace } from '../../src/engine/queue-pace.js';

t.test('estimates the queue wait from the rate at which requests have left it', (t) => {
  let now = 1_000;
  const pace = new QueuePace(() => now);
  t.equal(pace.drainMs(100), 1_000, 'nothing known');
  for (let i = 0; i < 200; i++) {
    now += 500;
    pace.started();
  }
  t.ok(Math.abs(pace.drainMs(20) - 10_000) < 500, 'two a second: twenty take ten seconds');
  t.equal(pace.drainMs(0), 1_000, 'never less than a second');
  now += 20_000;
  t.ok(pace.drainMs(20) > 15_000, 'a queue that stands still gets slower');
  now += 200_000;
  t.equal(pace.drainMs(20), 1_000, 'what was minutes ago says nothing');
  t.end();
});
