// Tests tuning runs on a real server: started by an operator with progress reports, stopped, interrupted by a server
// restart, and reported by the command line.
import { once } from 'node:events';
import t from 'tap';
import type { ListPage } from '../../src/shared/wire/list.js';
import type { AuditEntry } from '../../src/shared/wire/organizations.js';
import type { EngineTunables } from '../../src/shared/wire/tunables.js';
import type { TuneRun, TuneRunSummary, TuneStart } from '../../src/shared/wire/tuning.js';
import { BY_COMMAND } from '../../src/bench/tune/plan.js';
import { eventually, startMonolith } from '../e2e/monolith.js';
import { openAccounts } from '../../src/storage/lmdb/accounts/directory.js';
import { dataFolder, inside } from '../e2e/stored-server.js';
import { dashboardClient, refusal } from '../support/dashboard-client.js';
import { post } from '../support/wire.js';

t.setTimeout(300_000); // the machine may be busy

const START: TuneStart = {
  model: 'hal-1.0',
  slo: 'ttft_p99=30s,itl_p99=10s',
  workload: { kind: 'fixed', prompt_tokens: 30, output_tokens: 8 },
  load: 'concurrency',
  max_load: 6,
  trials: 16,
  trial_s: 0.3,
  apply: false,
};

t.test(
  'a tuning run started by an operator measures settings and restores the previous ones when it ends early',
  async (t) => {
    const data = dataFolder();
    t.teardown(() => data.remove());
    const settings = { env: { MONOLITH_DATA_DIR: data.path, MONOLITH_HTTP_THREADS: '2' } };
    let server = await startMonolith(settings);
    t.teardown(async () => {
      await server.stop();
    });
    let client = dashboardClient(server.url);
    await client.signUp({ email: 'operator@example.com' });
    const values = async (): Promise<number[]> =>
      (await client.get<EngineTunables>('/operator/tunables/hal-1.0')).tunables.map(({ value }) => value);
    const run = (id: string): Promise<TuneRun> => client.get<TuneRun>(`/operator/tuning/${id}`);
    const keys = (): Promise<(string | null)[]> =>
      inside(data.path, async (store) => {
        const accounts = openAccounts(store);
        const all = await accounts.keys.all();
        await accounts.close();
        return all.filter(({ name }) => name === 'tuning run').map(({ revokedAt }) => revokedAt);
      });
    const before = await values();

    t.match(await refusal(client.post('/operator/tuning', { ...START, slo: 'ttft=fast' })), {
      status: 422,
      code: 'invalid_value',
      param: 'slo',
    });
    t.match(await refusal(client.post('/operator/tuning', { ...START, model: 'nobody' })), { status: 404 });
    t.match(await refusal(client.post('/operator/tuning', { ...START, workload: { kind: 'recent' } })), {
      status: 422,
      param: 'workload',
    });
    t.match(await refusal(client.post('/operator/tuning', { ...START, load: 'rate', max_load: undefined })), {
      status: 400,
      param: 'max_load',
    });
    t.match(await refusal(client.post('/operator/tuning', { ...START, trials: 3 })), { status: 422, param: 'trials' });

    // A run that completes.
    const begun = await client.post<TuneRun>('/operator/tuning', START);
    t.match(begun, {
      state: 'running',
      phase: 'current',
      trials: [],
      objectives: ['ttft_p99=30000ms', 'itl_p99=10000ms'],
      by: 'operator@example.com',
    });
    t.match(
      await refusal(client.post('/operator/tuning', START)),
      { status: 422, code: 'conflicting_parameters' },
      'only one tuning run can be active',
    );
    t.ok(
      await eventually(async () => (await run(begun.id)).trials.length > 1),
      'completed trials are reported during the run',
    );
    t.ok(await eventually(async () => (await run(begun.id)).state !== 'running'));
    const ended = await run(begun.id);
    t.match(ended, { state: 'done', error: null, result: { current: { goodput: { mean: Number } } } });
    t.equal(ended.trials.length, 16);
    t.ok(
      ended.trials.every(
        ({ throughput, errors, output_tokens_per_s: tokens }) =>
          throughput > 0 && tokens > throughput && Object.keys(errors).length === 0,
      ),
      'all requests of the trials succeeded',
    );
    t.same(await values(), before);
    t.equal((await client.get<EngineTunables>('/operator/tunables/hal-1.0')).held_until, null);
    t.ok(
      await eventually(
        async () => (await keys()).length === 1 && (await keys()).every((revokedAt) => revokedAt !== null),
      ),
      "the run's API key is revoked",
    );
    t.match((await client.get<ListPage<AuditEntry>>('/operator/audit-log')).data[0], {
      action: 'engine.tuning_started',
      target: 'hal-1.0',
    });

    // A run stopped by the operator.
    const second = await client.post<TuneRun>('/operator/tuning', { ...START, trial_s: 60 });
    t.ok(
      await eventually(
        async () => (await client.get<EngineTunables>('/operator/tunables/hal-1.0')).held_until !== null,
      ),
    );
    await client.delete(`/operator/tuning/${second.id}`);
    t.ok(await eventually(async () => (await run(second.id)).state === 'stopped'));
    t.same(await values(), before);

    // A run that ends because an operator changes the settings.
    const third = await client.post<TuneRun>('/operator/tuning', START);
    t.ok(await eventually(async () => (await run(third.id)).trials.length > 0));
    await client.patch('/operator/tunables/hal-1.0', { step_ms: 77 });
    t.ok(await eventually(async () => (await run(third.id)).state === 'failed'));
    t.match((await run(third.id)).error, /operator changed the settings/);
    t.same((await values())[2], 77);

    // A run interrupted by a killed server.
    const fourth = await client.post<TuneRun>('/operator/tuning', START);
    t.ok(await eventually(async () => (await run(fourth.id)).trials.length > 0));
    server.process.kill('SIGKILL');
    await once(server.process, 'exit');
    server = await startMonolith(settings);
    client = dashboardClient(server.url);
    await client.login('operator@example.com');
    t.match(await run(fourth.id), { state: 'failed', error: 'The server ended.' });
    t.same(await values(), [before[0], before[1], 77, before[3], before[4]]);
    const { data: list } = await client.get<ListPage<TuneRunSummary>>('/operator/tuning');
    t.same(
      list.map(({ id }) => id),
      [fourth.id, third.id, second.id, begun.id],
    );
    t.equal(list[3]?.trials_done, 16);

    // The run's own requests do not count as workload; clients' requests do.
    t.same((await client.get<ListPage<unknown>>('/operator/request-shapes?model=hal-1.0')).data, []);
    await post(server, '/v1/chat/completions', {
      model: 'hal-1.0',
      max_completion_tokens: 4,
      messages: [{ role: 'user', content: 'Hello!' }],
    });
    t.ok(
      await eventually(
        async () => (await client.get<ListPage<unknown>>('/operator/request-shapes?model=hal-1.0')).data.length === 1,
      ),
    );
    t.match((await client.get<ListPage<unknown>>('/operator/request-shapes?model=hal-1.0')).data[0], {
      at: String,
      input_tokens: Number,
      cached_tokens: 0,
      output_tokens: Number,
    });

    // A run reported by the command line.
    const told = {
      ...ended,
      id: 'tun_told1234',
      started_at: new Date().toISOString(),
      ended_at: null,
      state: 'running' as const,
      by: BY_COMMAND,
    };
    t.equal((await client.fetch('/operator/tuning/tun_told1234', { method: 'PUT', body: told })).status, 200);
    t.match(
      await run('tun_told1234'),
      { id: 'tun_told1234', state: 'failed', error: /stopped responding/, ended_at: String, trials: { length: 16 } },
      'a reported run without a lease on the engine counts as failed',
    );
    const hold = `/operator/tunables/${encodeURIComponent(told.model)}/hold`;
    t.equal(
      (
        await client.fetch(hold, {
          method: 'PUT',
          body: {
            id: told.id,
            is_new: true,
            seconds: 30,
            values: { max_batch_tokens: 256, max_sequences: 4, step_ms: 250 },
          },
        })
      ).status,
      200,
    );
    t.equal((await client.fetch('/operator/tuning/tun_told1234', { method: 'PUT', body: told })).status, 200);
    t.match(await run('tun_told1234'), { state: 'running', trials: { length: 16 } });
    t.equal((await client.fetch(`${hold}?id=${told.id}`, { method: 'DELETE' })).status, 200);
    t.equal(
      (await client.get<ListPage<TuneRunSummary>>('/operator/tuning')).data.find(({ id }) => id === told.id)?.state,
      'failed',
      'a run whose lease has expired counts as failed',
    );
    t.equal((await client.fetch('/operator/tuning/tun_other123', { method: 'PUT', body: told })).status, 422);
    t.equal(
      (
        await client.fetch('/operator/tuning/tun_told1234', {
          method: 'PUT',
          body: { ...told, trials: [{ number: 1 }] },
        })
      ).status,
      400,
    );
  },
);
