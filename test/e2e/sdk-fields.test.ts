// Reads the request types of the official SDKs and checks that the server drops none of their keys without notice. The
// server must refuse a key by name, list it in an x-ignored-* header, show it to the model, or honor it. The keys that
// are honored without a visible change to the prompt are listed in support/sdk/honoured.ts.
import t from 'tap';
import { callSpecs, model, type Stored } from '../support/sdk/calls.js';
import { honouredAnywhere, honouredKeys, sentAsHeaders } from '../support/sdk/honoured.js';
import { variantsOf } from '../support/sdk/shapes.js';
import { readRequestTypes } from '../support/sdk/types.js';
import { KeyWalk } from '../support/sdk/walk.js';
import { ask } from '../support/wire.js';
import { startMonolith } from './monolith.js';

t.setTimeout(300_000); // the machine may be busy

const types = readRequestTypes();
const server = await startMonolith({
  env: { MONOLITH_LIMITS_RPM: 'off', MONOLITH_LIMITS_TPM: 'off', MONOLITH_LIMITS_CONCURRENCY: 'off' },
});
t.teardown(() => server.stop());

async function stored(): Promise<Stored> {
  interface Resource {
    id: string;
    output: { id: string; encrypted_content?: string }[];
  }
  const create = async (path: string): Promise<Resource> =>
    (await ask(server, path, { model, input: 'hi there' })).body as Resource;
  const response = await create('/v1/responses');
  const compacted = await create('/v1/responses/compact');
  return {
    response: response.id,
    item: response.output.at(-1)?.id ?? '',
    summary: compacted.output.at(-1)?.encrypted_content ?? '',
  };
}
const specs = callSpecs(await stored());

/** Name of each call, the call with which it shares nested keys, and the minimum number of keys that must be found. */
const calls = [
  ['chat', null, 90],
  ['completions', null, 18],
  ['decisions', null, 60],
  ['responses', null, 600],
  ['inputTokens', 'responses', 9],
  ['compact', 'responses', 8],
  ['messages', null, 600],
  ['countTokens', 'messages', 5],
] as const;

const known = new Map<string, Set<string>>();
for (const [call, shared, least] of calls) {
  t.test(`${call}: no key is dropped without notice`, async (t) => {
    const others = shared === null ? undefined : known.get(shared);
    // Both calls parse the shared nested members with the same code, so they are tested only once.
    const skips = (path: string): boolean =>
      sentAsHeaders.includes(path) || (/[.[]/.test(path) && others?.has(path) === true);
    const findings = await new KeyWalk(server, specs[call], skips).run(types.get(call)!);
    known.set(call, new Set(findings.map(({ path }) => path)));
    t.ok(findings.length >= least, `${findings.length} keys were found`);
    const listed = honouredKeys(call);
    const silent = findings.filter(({ outcome }) => outcome === 'silent');
    const isHonoured = (path: string): boolean =>
      listed.has(path) || honouredAnywhere.some((end) => path === end || path.endsWith(`.${end}`));
    t.same(
      findings.filter(({ outcome }) => outcome === 'broken').map(({ path, detail }) => `${path}: ${detail}`),
      [],
      'every request is valid or refused for the key that it tests',
    );
    t.same(
      silent.filter(({ path }) => !isHonoured(path)).map(({ path, detail }) => `${path}: ${detail}`),
      [],
      'no key is dropped without notice',
    );
    const paths = new Set(silent.map(({ path }) => path));
    t.same(
      [...listed].filter((path) => !paths.has(path)),
      [],
      'every listed key needs to be listed',
    );
  });
}

t.test('socket: messages have only the members of a request and those of the connection', (t) => {
  const members = (call: 'socket' | 'responses'): string[] =>
    variantsOf(types.get(call)!)
      .filter(({ tag }) => tag === '' || tag === 'response.create')
      .flatMap(({ fields }) => fields.map(({ name }) => name));
  const ofRequest = new Set(members('responses'));
  t.same(
    [...new Set(members('socket'))].filter((name) => !ofRequest.has(name)).sort(),
    ['generate', 'stream_id'],
    'test/e2e/responses-socket.test.ts tests these',
  );
  t.same(
    variantsOf(types.get('socket')!).map(({ tag }) => tag),
    ['response.create', 'response.steer', 'response.inject'],
    'test/e2e/responses-socket.test.ts: the others are refused by name',
  );
  t.end();
});
