import t from 'tap';
import { QueuePace } from '../../src/engine/queue-pace.js';

t.test('QueuePace estimates the queue wait from the rate at which requests have left the queue', (t) => {
  let now = 1_000;
  const pace = new QueuePace(() => now);
  t.equal(pace.drainMs(100), 1_000, 'the estimate is one second before any request has left');
  for (let i = 0; i < 200; i++) {
    now += 500;
    pace.started();
  }
  t.ok(Math.abs(pace.drainMs(20) - 10_000) < 500, 'at two requests per second, twenty requests take ten seconds');
  t.equal(pace.drainMs(0), 1_000, 'the estimate is never less than a second');
  now += 20_000;
  t.ok(pace.drainMs(20) > 15_000, 'a stalled queue raises the estimate');
  now += 200_000;
  t.equal(pace.drainMs(20), 1_000, 'rates from minutes ago are ignored');
  t.end();
});
