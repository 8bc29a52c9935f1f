// Tests small compressed requests that decompress to a large amount of data, sent concurrently with another client's
// cheap requests.
import { request } from 'node:http';
import { gzipSync } from 'node:zlib';
import t from 'tap';
import { startScripted } from '../support/script-model.js';

const MIB = 1024 * 1024;
const bomb = (unit: string, last: string): Buffer =>
  gzipSync(
    `{"model":"hal-1.0","messages":[{"role":"user","content":"A: x"}],"extra":[${unit.repeat(Math.floor((32 * MIB - 200) / unit.length))}${last}]}`,
  );

t.test('decompression bombs do not delay other clients', async (t) => {
  const server = await startScripted();
  t.teardown(() => server.stop());
  const post = (path: string, body: Buffer): Promise<number | undefined> =>
    new Promise((resolve) => {
      const sent = request(
        `${server.url}${path}`,
        {
          method: 'POST',
          headers: {
            authorization: `Bearer ${server.key}`,
            'content-type': 'application/json',
            'content-encoding': 'gzip',
          },
        },
        (response) => response.resume().on('end', () => resolve(response.statusCode)),
      );
      sent.on('error', () => resolve(undefined));
      sent.end(body);
    });

  let over = false;
  const waits: number[] = [];
  const polite = (async () => {
    while (!over) {
      const began = performance.now();
      const response = await fetch(`${server.url}/v1/models`, { headers: { authorization: `Bearer ${server.key}` } });
      await response.text();
      if (response.status === 200) waits.push(performance.now() - began);
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
  })();

  const began = performance.now();
  const shapes = [bomb('{},', '{}'), bomb('[],', '[]'), bomb('[', ''), bomb('1,', '1')];
  for (const path of ['/v1/chat/completions', '/v1/messages', '/v1/responses']) {
    const statuses = await Promise.all([...shapes, ...shapes.slice(0, 2)].map((body) => post(path, body)));
    t.same(
      statuses,
      statuses.map(() => 400),
      path,
    );
  }
  over = true;
  await polite;
  t.ok(waits.length > 20);
  const all = performance.now() - began;
  t.ok(Math.max(...waits) < all / 2, `the longest wait was ${Math.round(Math.max(...waits))} of ${Math.round(all)} ms`);
});
