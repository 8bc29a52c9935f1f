// Tests a batch that two server processes run together on a shared PostgreSQL. One process is killed while it runs
// requests; the other process takes over these requests when their leases expire.
import OpenAI, { toFile } from 'openai';
import t from 'tap';
import { leaveOutIf } from '../support/needed-programs.js';
import { startPostgres, withoutPostgres } from '../support/postgres.js';
import { startRedis, withoutRedis } from '../support/redis.js';
import { said, startScripted } from '../support/script-model.js';
import { eventually, type Monolith } from './monolith.js';

t.setTimeout(600_000); // the machine may be busy

const LINES = 60;

t.test('two processes run a batch together, and one takes over the requests of the other', async (t) => {
  leaveOutIf(t, withoutPostgres, withoutRedis);
  const postgres = await startPostgres();
  t.teardown(() => postgres.close());
  const redis = await startRedis();
  t.teardown(() => redis.stop());
  const start = (): Promise<Monolith> =>
    startScripted({
      args: ['--database', postgres.url, '--redis', redis.url, '--batches-lease-s', '3', '--threads', '1'],
      models: ['clarke-1.0'],
    });
  const [lost, other] = await Promise.all([start(), start()]);
  t.teardown(() => Promise.all([lost.stop(), other.stop()]));
  const client = new OpenAI({ baseURL: `${other.url}/v1`, apiKey: other.key, maxRetries: 0 });
  const body = {
    model: 'clarke-1.0',
    messages: [{ role: 'user', content: 'A: capital?' }],
    reasoning_effort: 'none',
  };
  const lines = Array.from({ length: LINES }, (_, at) =>
    JSON.stringify({ custom_id: `l${at}`, method: 'POST', url: '/v1/chat/completions', body }),
  );
  const file = await client.files.create({
    file: await toFile(Buffer.from(lines.join('\n')), 'input.jsonl'),
    purpose: 'batch',
  });
  const { id } = await client.batches.create({
    input_file_id: file.id,
    endpoint: '/v1/chat/completions',
    completion_window: '24h',
  });
  const answered = async (server: Monolith): Promise<number> => {
    let sum = 0;
    for (const [name, value] of await server.metrics())
      if (name.startsWith('monolith_http_requests_total{') && name.includes('/v1/chat/completions')) sum += value;
    return sum;
  };
  t.ok(await eventually(async () => (await answered(lost)) > 0 && (await answered(other)) > 0, 120_000));
  lost.process.kill('SIGKILL');
  let batch = await client.batches.retrieve(id);
  t.ok(
    await eventually(async () => {
      batch = await client.batches.retrieve(id);
      return batch.status === 'completed';
    }, 240_000),
    batch.status,
  );
  t.match(batch.request_counts, { total: LINES, completed: LINES, failed: 0 });
  const output = (await (await client.files.content(batch.output_file_id!)).text()).trimEnd().split('\n');
  const results = output.map(
    (line) => JSON.parse(line) as { custom_id: string; response: { body: OpenAI.ChatCompletion } },
  );
  t.same(
    results.map(({ custom_id }) => custom_id),
    Array.from({ length: LINES }, (_, at) => `l${at}`),
    'each request has one result',
  );
  t.ok(results.every(({ response }) => response.body.choices[0]?.message.content === said('A').content));
});
