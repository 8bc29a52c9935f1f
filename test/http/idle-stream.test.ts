import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { startRoutes } from './running-server.js';

// The server library closes idle connections after 10 seconds; a stream that waits for its next token is not idle.
t.test('a silent stream outlives the idle timeout', async (t) => {
  const server = await startRoutes([{
    method: 'POST', path: '/v1/chat/completions', scope: 'inference',
    serve: async (exchange) => {
      const stream = exchange.sse();
      stream.send('{"n":1}');
      await sleep(13_000);
      stream.send('{"n":2}');
      stream.end();
    },
  }], { http: { keepalive_ms: 60_000 } });
  t.teardown(() => server.close());
  t.equal(await (await server.post('/v1/chat/completions', {})).text(), 'data: {"n":1}\n\ndata: {"n":2}\n\n');
});
