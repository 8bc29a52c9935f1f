import { createHash, randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t from 'tap';
import { StartError } from '../../src/shared/errors.js';
import { LmdbSealerState } from '../../src/storage/lmdb/accounts/sealer-state.js';
import { openSealer } from '../../src/accounts/sealing/open-sealer.js';
import type { Sealer } from '../../src/accounts/sealing/sealer.js';
import { openStore } from '../../src/storage/lmdb/lmdb-store.js';
import type { Store } from '../../src/storage/store.js';

const folder = mkdtempSync(join(tmpdir(), 'monolith-sealing-'));
const stores: Store[] = [];
const newStore = async (name: string): Promise<Store> => {
  const store = await openStore(join(folder, name));
  stores.push(store);
  return store;
};
const newState = async (name: string): Promise<LmdbSealerState> => new LmdbSealerState(await newStore(name));
t.teardown(async () => {
  for (const store of stores) await store.close();
  rmSync(folder, { recursive: true, force: true });
});

const MODELS = ['hal-1.0', 'clarke-1.0', 'tycho-1.0'];
const KEYS = ['11', '22', '33'].map((pair) => pair.repeat(32));
const here = { organizationId: 'org_a', model: 'tycho-1.0' };
const text = 'Two and two 🧮 make four.\n';
const store = await newStore('first');
const sealer = await openSealer(new LmdbSealerState(store), KEYS, MODELS);

/** Every value that differs from `value` in one byte or one character, or is cut. */
function* spoiled(value: string, prefix: string): Generator<string> {
  const bytes = Buffer.from(value.slice(prefix.length), 'base64url');
  for (let at = 0; at < bytes.length; at++) {
    const copy = Buffer.from(bytes);
    copy[at] = (copy[at] as number) ^ (1 << (at % 8));
    yield prefix + copy.toString('base64url');
  }
  for (const end of [0, 1, 2, 3, 15, 30])
    yield prefix + bytes.subarray(0, Math.min(end, bytes.length - 1)).toString('base64url');
  yield `${value}A`;
  yield `${value}=`;
  yield ` ${value}`;
  yield Buffer.concat([bytes, Buffer.from([0])]).toString('base64url');
  yield value.slice(0, -1) + (value.endsWith('B') ? 'C' : 'B');
}

t.test('thinking, signed: verifies as it was made, and only so', async (t) => {
  const signature = sealer.signThinking(text, here);
  const bytes = Buffer.from(signature, 'base64url');
  t.equal(bytes.length, 35);
  t.equal(bytes[0], 1);
  t.same(sealer.openThinking(signature, text, 'org_a'), { text, model: 'tycho-1.0', format: 'signed' });
  t.equal(signature, sealer.signThinking(text, here), 'the same text has the same signature');
  for (const value of spoiled(signature, '')) t.equal(sealer.openThinking(value, text, 'org_a'), null, value);
  for (const other of ['', 'x', text.slice(1), `${text} `, text.replace('four', 'five')])
    t.equal(sealer.openThinking(signature, other, 'org_a'), null);
  t.equal(sealer.openThinking(signature, text, 'org_b'), null, 'another organization');
  const odd = sealer.signThinking('\ufffd', here);
  t.ok(sealer.openThinking(odd, '\ufffd', 'org_a'));
  t.equal(sealer.openThinking(odd, '\ud800', 'org_a'), null, 'half a character is another text');
});

t.test('thinking, sealed: the text travels inside', async (t) => {
  const signature = sealer.sealThinking(text, here);
  t.equal(Buffer.from(signature, 'base64url')[0], 2);
  t.notMatch(Buffer.from(signature, 'base64url').toString('latin1'), 'Two and two');
  t.same(sealer.openThinking(signature, '', 'org_a'), { text, model: 'tycho-1.0', format: 'sealed' });
  t.not(signature, sealer.sealThinking(text, here), 'never twice the same');
  for (const value of spoiled(signature, '')) t.equal(sealer.openThinking(value, '', 'org_a'), null, value);
  t.equal(sealer.openThinking(signature, text, 'org_a'), null, 'with visible text');
  t.equal(sealer.openThinking(signature, '', 'org_b'), null, 'another organization');
  const empty = sealer.sealThinking('', here);
  t.same(sealer.openThinking(empty, '', 'org_a'), { text: '', model: 'tycho-1.0', format: 'sealed' });
});

t.test('reasoning and compactions', async (t) => {
  for (const kind of ['reasoning', 'compaction'] as const) {
    const sealed = sealer.seal(kind, text, here);
    t.match(sealed, /^enc1\.[A-Za-z0-9_-]+$/);
    t.same(sealer.unseal(kind, sealed, 'org_a'), { text, model: 'tycho-1.0' });
    for (const value of spoiled(sealed, 'enc1.')) t.equal(sealer.unseal(kind, value, 'org_a'), null, value);
    t.equal(sealer.unseal(kind, sealed, 'org_b'), null, 'another organization');
    t.equal(
      sealer.unseal(kind === 'reasoning' ? 'compaction' : 'reasoning', sealed, 'org_a'),
      null,
      'one kind is not the other',
    );
    t.equal(sealer.unseal(kind, sealed.slice(5), 'org_a'), null, 'without its prefix');
  }
});

t.test('another of our models opens and says which; a name that was never served does not', async (t) => {
  for (const model of MODELS) {
    t.equal(sealer.openThinking(sealer.signThinking(text, { ...here, model }), text, 'org_a')?.model, model);
    t.equal(sealer.openThinking(sealer.sealThinking(text, { ...here, model }), '', 'org_a')?.model, model);
    t.equal(sealer.unseal('reasoning', sealer.seal('reasoning', text, { ...here, model }), 'org_a')?.model, model);
  }
  t.equal(sealer.openThinking(sealer.signThinking(text, { ...here, model: 'other' }), text, 'org_a'), null);
  const grown = await openSealer(new LmdbSealerState(store), KEYS, ['new-2.0', 'tycho-1.0']);
  t.equal(
    grown.openThinking(sealer.signThinking(text, { ...here, model: 'hal-1.0' }), text, 'org_a')?.model,
    'hal-1.0',
    'a model that was served before',
  );
});

t.test('where one field ends and the next begins is bound too', async (t) => {
  // Names that give the same bytes one after the other, and the same model byte: only their lengths tell them apart.
  const byte = (name: string) => createHash('sha256').update(name).digest()[0];
  let whole = '';
  for (let n = 0; whole === ''; n++) if (byte(`x${n}`) === byte(`${n}`)) whole = `x${n}`;
  const rest = whole.slice(1);
  const both = await openSealer(await newState('lengths'), KEYS, [whole, rest]);
  const signed = both.signThinking(text, { organizationId: 'org_', model: whole });
  const sealed = both.sealThinking(text, { organizationId: 'org_', model: whole });
  t.equal(both.openThinking(signed, text, 'org_')?.model, whole);
  t.equal(both.openThinking(signed, text, 'org_x'), null, 'an organization that ends as the model begins');
  t.equal(both.openThinking(sealed, '', 'org_')?.model, whole);
  t.equal(both.openThinking(sealed, '', 'org_x'), null);
  let longer = '';
  for (let n = 0; longer === ''; n++) if (byte(`y${n}`) === byte(`y${n}z`)) longer = `y${n}z`;
  const shorter = longer.slice(0, -1);
  const named = await openSealer(await newState('names'), KEYS, [shorter, longer]);
  const begins = named.signThinking(`z${text}`, { organizationId: 'org_a', model: shorter });
  t.equal(named.openThinking(begins, `z${text}`, 'org_a')?.model, shorter);
  t.equal(named.openThinking(begins, text, 'org_a'), null, 'a model that ends as the text begins');
  for (const model of ['ü'.repeat(40), 'm'.repeat(300), '']) {
    t.same(
      named.unseal('reasoning', named.seal('reasoning', text, { organizationId: 'org_a', model }), 'org_a'),
      { text, model },
      'the name ends where its length says',
    );
  }
});

t.test('rotation: earlier keys open, removed keys do not, in whatever order', async (t) => {
  const values = (one: Sealer) =>
    [one.signThinking(text, here), one.sealThinking(text, here), one.seal('reasoning', text, here)] as const;
  const opens = (one: Sealer, [signed, sealed, reasoning]: readonly [string, string, string]) =>
    [
      one.openThinking(signed, text, 'org_a'),
      one.openThinking(sealed, '', 'org_a'),
      one.unseal('reasoning', reasoning, 'org_a'),
    ].map((result) => result !== null);
  const [first, second, third] = KEYS as [string, string, string];
  const old = values(await openSealer(new LmdbSealerState(store), [first], MODELS));
  t.same(opens(await openSealer(new LmdbSealerState(store), [second, first], MODELS), old), [true, true, true]);
  t.same(opens(await openSealer(new LmdbSealerState(store), [third, second, first], MODELS), old), [true, true, true]);
  t.same(opens(await openSealer(new LmdbSealerState(store), [third, second], MODELS), old), [false, false, false]);
  t.same(
    opens(
      await openSealer(new LmdbSealerState(store), [first], MODELS),
      values(await openSealer(new LmdbSealerState(store), [second, first], MODELS)),
    ),
    [false, false, false],
    'the first key signs',
  );
});

t.test('many keys: two with one key id are told apart', async (t) => {
  const many = Array.from({ length: 300 }, () => randomBytes(32).toString('hex'));
  const all = await openSealer(new LmdbSealerState(store), many, MODELS);
  for (const key of many.slice(-40)) {
    const alone = await openSealer(new LmdbSealerState(store), [key], MODELS);
    t.ok(all.openThinking(alone.signThinking(text, here), text, 'org_a'));
    t.ok(all.unseal('compaction', alone.seal('compaction', text, here), 'org_a'));
  }
});

t.test('without configured keys one is made, kept, and still opens after it was replaced', async (t) => {
  const own = await newStore('own');
  const made = await openSealer(new LmdbSealerState(own), [], MODELS);
  const signature = made.signThinking(text, here);
  t.ok(
    (await openSealer(new LmdbSealerState(own), [], MODELS)).openThinking(signature, text, 'org_a'),
    'after a restart',
  );
  const replaced = await openSealer(new LmdbSealerState(own), KEYS, MODELS);
  t.ok(replaced.openThinking(signature, text, 'org_a'), 'after keys came into the settings');
  t.not(replaced.signThinking(text, here), signature);
  const table = own.table<{ secret: Uint8Array; replacedAt: number }>('secrets');
  const record = table.get('signing-key')!;
  await table.put('signing-key', { ...record, replacedAt: Date.now() - 30 * 24 * 3_600_000 });
  t.ok(
    (await openSealer(new LmdbSealerState(own), KEYS, MODELS)).openThinking(signature, text, 'org_a'),
    'for 30 days',
  );
  await table.put('signing-key', { ...record, replacedAt: Date.now() - 32 * 24 * 3_600_000 });
  t.equal(
    (await openSealer(new LmdbSealerState(own), KEYS, MODELS)).openThinking(signature, text, 'org_a'),
    null,
    'not for ever',
  );
  t.ok(
    (await openSealer(new LmdbSealerState(own), [], MODELS)).openThinking(signature, text, 'org_a'),
    'it is the current one again',
  );
  t.equal(
    (await openSealer(await newState('third'), [], MODELS)).openThinking(signature, text, 'org_a'),
    null,
    'another server',
  );
});

t.test('a bad key is named', async (t) => {
  for (const bad of ['', 'zz'.repeat(32), '11'.repeat(31), '11'.repeat(33)]) {
    await t.rejects(openSealer(new LmdbSealerState(store), [KEYS[0]!, bad], MODELS), {
      name: 'StartError',
      message: /^secrets\.signing_keys: key 2 must be 64 hexadecimal digits\.$/,
    });
  }
  await t.rejects(openSealer(new LmdbSealerState(store), ['x'], MODELS), StartError);
});

t.test('long values cost little', async (t) => {
  const long = 'x'.repeat(8 << 20);
  const before = process.cpuUsage();
  t.ok(sealer.openThinking(sealer.signThinking(long, here), long, 'org_a'));
  t.equal(sealer.openThinking(sealer.sealThinking(long, here), '', 'org_a')?.text.length, long.length);
  t.ok(process.cpuUsage(before).user < 1_000_000);
});
