// Several organizations on a machine that has been up for longer than an answer may take: nobody's answer is over before
// it has begun. The engine reads a clock that began with the machine, so the limit is set below what that shows. The
// same with the clock at its beginning and near its end is in test/native/engine/engine_fairness_test.cc.
import t from 'tap';
import { openAccounts } from '../../src/storage/lmdb/accounts/directory.js';
import type { Organization } from '../../src/accounts/keys.js';
import { said, startScripted } from '../support/script-model.js';
import { dataFolder, inside } from './stored-server.js';

t.setTimeout(300_000); // for a busy machine

const ORGANIZATIONS = 8;
const ROUNDS = 12;
const upMs = Number(process.hrtime.bigint() / 1_000_000n);

const data = dataFolder();
const server = await startScripted({
  env: {
    MONOLITH_DATA_DIR: data.path,
    MONOLITH_LIMITS_TPM: 'off',
    MONOLITH_LIMITS_RPM: 'off',
    MONOLITH_ENGINE_MAX_GENERATION_MS: String(Math.min(3_600_000, Math.max(60_000, Math.floor(upMs / 2)))),
  },
});
t.teardown(async () => {
  await server.stop();
  data.remove();
});

const keys = await inside(data.path, async (store) => {
  const accounts = openAccounts(store);
  const secrets: string[] = [];
  for (let at = 0; at < ORGANIZATIONS; at++) {
    const organization: Organization = {
      id: `org_${String.fromCharCode(66 + at).repeat(24)}`,
      tenant: 2 + at,
      name: `Number ${at}`,
      status: 'active',
      createdAt: new Date().toISOString(),
    };
    await store.table<Organization>('organizations').insert(organization.id, organization);
    secrets.push((await accounts.createKey({ name: 'a test key' }, organization.id)).secret);
  }
  await accounts.close();
  return secrets;
});

t.test('no answer comes back empty', async (t) => {
  let n = 0;
  const wrong: unknown[] = [];
  const ask = async (key: string): Promise<void> => {
    // So long that the prompts of two do not fit into one step, and nothing of them is in the prefix cache.
    const content = `A: ${n++} ${'x'.repeat(150)}`;
    const response = await fetch(`${server.url}/v1/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      body: JSON.stringify({
        model: 'hal-1.0',
        reasoning_effort: 'none',
        messages: [
          { role: 'system', content: `${n} ${'y'.repeat(50)}` },
          { role: 'user', content },
        ],
      }),
    });
    const body = (await response.json()) as {
      choices?: { message: { content: string | null }; finish_reason: string }[];
    };
    const choice = body.choices?.[0];
    if (choice?.message.content !== said('A').content || choice.finish_reason !== 'stop') wrong.push(body);
  };
  await Promise.all(
    keys.map(async (key) => {
      for (let round = 0; round < ROUNDS; round++) await ask(key);
    }),
  );
  t.equal(n, ORGANIZATIONS * ROUNDS);
  t.same(wrong, [], `${wrong.length} of ${n}`);
});
