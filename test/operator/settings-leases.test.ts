// Tests leases on engine settings, which let a tuning client try settings on a running engine. There is only one holder
// at a time, nothing is stored, and the previous settings are restored when the lease is released, times out or is
// overridden, or when the server is killed.
import { once } from 'node:events';
import t from 'tap';
import type { EngineTunables } from '../../src/shared/wire/tunables.js';
import { eventually } from '../e2e/monolith.js';
import { dataFolder } from '../e2e/stored-server.js';
import { dashboardClient, type DashboardClient } from '../support/dashboard-client.js';
import { startScripted } from '../support/script-model.js';

t.setTimeout(300_000); // the machine may be busy

const VALUES = { max_batch_tokens: 64, max_sequences: 3, step_ms: 40 };
const shown = ({ tunables }: EngineTunables): number[] => tunables.slice(0, 3).map(({ value }) => value);

for (const threads of [1, 2]) {
  t.test(
    `a settings lease ends and restores the settings with ${threads} HTTP worker${threads > 1 ? 's' : ''}`,
    async (t) => {
      const data = dataFolder();
      t.teardown(() => data.remove());
      const settings = {
        context: 4_096,
        env: { MONOLITH_DATA_DIR: data.path, MONOLITH_HTTP_THREADS: String(threads) },
      };
      let server = await startScripted(settings);
      t.teardown(async () => {
        await server.stop();
      });
      let client = dashboardClient(server.url);
      await client.signUp({ email: 'operator@example.com' });
      const engine = (): Promise<EngineTunables> => client.get<EngineTunables>('/operator/tunables/hal-1.0');
      const hold = async (
        body: object,
        by: DashboardClient = client,
      ): Promise<{ status: number; body: EngineTunables & { error: { code: string; message: string } } }> => {
        const answer = await by.fetch('/operator/tunables/hal-1.0/hold', { method: 'PUT', body });
        return { status: answer.status, body: (await answer.json()) as never };
      };
      const before = await client.patch<EngineTunables>('/operator/tunables/hal-1.0', { step_ms: 100 });
      t.same(shown(before), [256, 32, 100]);
      t.equal(before.held_until, null);

      const mine = { id: 'tun_mine', seconds: 60, values: VALUES };
      t.match(
        await hold({ ...mine, is_new: false }),
        { status: 422, body: { error: { code: 'conflicting_parameters', message: /lease is no longer valid/ } } },
        'a lease that was never started cannot be renewed',
      );
      t.same(shown((await hold({ ...mine, is_new: true })).body), [64, 3, 40]);
      t.same(shown(await engine()), [64, 3, 40]);
      t.ok((await engine()).held_until);
      t.match(await hold({ ...mine, id: 'tun_other', is_new: true }), {
        status: 422,
        body: { error: { message: /one run at a time/ } },
      });
      t.match(await hold({ ...mine, is_new: false, values: { ...VALUES, max_sequences: 0 } }), {
        status: 422,
        body: { error: { param: 'max_sequences' } },
      });
      t.same(shown((await hold({ ...mine, is_new: false, values: { ...VALUES, step_ms: 41 } })).body), [64, 3, 41]);

      // Releasing the lease restores the previous settings; releasing with another id changes nothing.
      await client.delete('/operator/tunables/hal-1.0/hold?id=tun_other');
      t.same(shown(await engine()), [64, 3, 41]);
      await client.delete('/operator/tunables/hal-1.0/hold?id=tun_mine');
      t.same(shown(await engine()), [256, 32, 100]);

      // An operator's change ends the lease.
      await hold({ ...mine, is_new: true });
      t.same(
        shown(await client.patch<EngineTunables>('/operator/tunables/hal-1.0', { max_sequences: 5 })),
        [256, 5, 100],
      );
      t.match(await hold({ ...mine, is_new: false }), { status: 422 });
      t.same(shown(await engine()), [256, 5, 100]);

      // A lease that is not renewed times out.
      await hold({ ...mine, is_new: true, seconds: 1 });
      t.same(shown(await engine()), [64, 3, 40]);
      t.ok(await eventually(async () => shown(await engine())[0] === 256));
      t.same(shown(await engine()), [256, 5, 100]);
      t.ok(await eventually(() => /tuning client timed out/.test(server.log())), 'the log reports the timeout');

      // After the server is killed and restarted, the previous settings apply.
      await hold({ ...mine, is_new: true, seconds: 600 });
      server.process.kill('SIGKILL');
      await once(server.process, 'exit');
      server = await startScripted(settings);
      client = dashboardClient(server.url);
      await client.login('operator@example.com');
      t.same(shown(await engine()), [256, 5, 100]);
      t.match(server.log(), /ended a settings lease of the previous server process/);
      t.equal(
        (await hold({ ...mine, id: 'tun_other', is_new: true })).status,
        200,
        'the lease is free after the restart',
      );

      const member = dashboardClient(server.url);
      await member.signUp({ email: 'plain@example.com' });
      t.equal((await hold({ ...mine, is_new: true }, member)).status, 403);
    },
  );
}
