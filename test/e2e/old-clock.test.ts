// Several organizations send requests on a machine whose uptime exceeds a response's time limit. No response may time
// out before it starts. The engine reads a clock that starts at boot, so the limit is set below the current uptime.
// test/native/engine/engine_fairness_test.cc tests the same with the clock at zero and near its maximum.
import t from 'tap';
import { openAccounts } from '../../src/storage/lmdb/accounts/directory.js';
import type { Organization } from '../../src/accounts/keys.js';
import { said, startScripted } from '../support/script-model.js';
import { dataFolder, inside } from './stored-server.js';

t.setTimeout(300_000); // the machine may be busy

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

t.test('no response is empty when the uptime exceeds the time limit', async (t) => {
  let n = 0;
  const wrong: unknown[] = [];
  const ask = async (key: string): Promise<void> => {
    // The prompts of two requests do not fit in one step together, and share no prefix that could be cached.
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
