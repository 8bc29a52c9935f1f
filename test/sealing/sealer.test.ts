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

/** Yields variants of the value: with one byte or character changed, truncated, and extended. */
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

t.test('a signature is valid only for the exact thinking text that it was made for', async (t) => {
  const signature = sealer.signThinking(text, here);
  const bytes = Buffer.from(signature, 'base64url');
  t.equal(bytes.length, 35);
  t.equal(bytes[0], 1);
  t.same(sealer.openThinking(signature, text, 'org_a'), { text, model: 'tycho-1.0', format: 'signed', origin: null });
  t.equal(signature, sealer.signThinking(text, here), 'the same text has the same signature');
  for (const value of spoiled(signature, '')) t.equal(sealer.openThinking(value, text, 'org_a'), null, value);
  for (const other of ['', 'x', text.slice(1), `${text} `, text.replace('four', 'five')])
    t.equal(sealer.openThinking(signature, other, 'org_a'), null);
  t.equal(sealer.openThinking(signature, text, 'org_b'), null, 'the signature is invalid for another organization');
  const odd = sealer.signThinking('\ufffd', here);
  t.ok(sealer.openThinking(odd, '\ufffd', 'org_a'));
  t.equal(sealer.openThinking(odd, '\ud800', 'org_a'), null, 'an unpaired surrogate is a different text');
});

t.test('sealed thinking contains its text in encrypted form', async (t) => {
  const signature = sealer.sealThinking(text, here);
  t.equal(Buffer.from(signature, 'base64url')[0], 2);
  t.notMatch(Buffer.from(signature, 'base64url').toString('latin1'), 'Two and two');
  t.same(sealer.openThinking(signature, '', 'org_a'), { text, model: 'tycho-1.0', format: 'sealed', origin: null });
  t.not(signature, sealer.sealThinking(text, here), 'sealing the same text twice gives different values');
  for (const value of spoiled(signature, '')) t.equal(sealer.openThinking(value, '', 'org_a'), null, value);
  t.equal(sealer.openThinking(signature, text, 'org_a'), null, 'sealed thinking is invalid together with visible text');
  t.equal(sealer.openThinking(signature, '', 'org_b'), null, 'the value is invalid for another organization');
  const empty = sealer.sealThinking('', here);
  t.same(sealer.openThinking(empty, '', 'org_a'), { text: '', model: 'tycho-1.0', format: 'sealed', origin: null });
});

t.test('sealed reasoning and compactions open only as the same kind and for the same organization', async (t) => {
  for (const kind of ['reasoning', 'compaction'] as const) {
    const sealed = sealer.seal(kind, text, here);
    t.match(sealed, /^enc1\.[A-Za-z0-9_-]+$/);
    t.same(sealer.unseal(kind, sealed, 'org_a'), { text, model: 'tycho-1.0', origin: null });
    for (const value of spoiled(sealed, 'enc1.')) t.equal(sealer.unseal(kind, value, 'org_a'), null, value);
    t.equal(sealer.unseal(kind, sealed, 'org_b'), null, 'the value is invalid for another organization');
    t.equal(
      sealer.unseal(kind === 'reasoning' ? 'compaction' : 'reasoning', sealed, 'org_a'),
      null,
      'a value of one kind does not open as the other kind',
    );
    t.equal(sealer.unseal(kind, sealed.slice(5), 'org_a'), null, 'the value does not open without its prefix');
  }
});

t.test('a value with an origin also holds the upstream and its block, unchanged', async (t) => {
  const blocks = [
    { type: 'thinking', thinking: text, signature: 'EqoB', first: 1 },
    { type: 'redacted_thinking', data: 'EmwK' },
    { type: 'reasoning', id: 'rs_1', summary: [{ type: 'summary_text', text }], encrypted_content: 'gAAAA' },
    null,
  ];
  for (const block of blocks) {
    const origin = { upstream: 'u', block };
    const from = { ...here, origin };
    const signed = sealer.signThinking(text, from);
    const sealed = sealer.sealThinking(text, from);
    t.same(
      [signed, sealed].map((value) => Buffer.from(value, 'base64url')[0]),
      [3, 4],
    );
    t.same(sealer.openThinking(signed, text, 'org_a'), { text, model: 'tycho-1.0', format: 'signed', origin });
    t.same(sealer.openThinking(sealed, '', 'org_a'), { text, model: 'tycho-1.0', format: 'sealed', origin });
    t.equal(JSON.stringify(sealer.openThinking(signed, text, 'org_a')?.origin), JSON.stringify(origin));
    t.equal(signed, sealer.signThinking(text, from), 'the same text and origin have the same signature');
    t.equal(sealer.openThinking(signed, `${text} `, 'org_a'), null, 'the value is bound to the visible text');
    t.equal(sealer.openThinking(sealed, text, 'org_a'), null);
    t.equal(sealer.openThinking(signed, text, 'org_b'), null);
    for (const value of spoiled(signed, '')) t.equal(sealer.openThinking(value, text, 'org_a'), null, value);
    for (const value of spoiled(sealed, '')) t.equal(sealer.openThinking(value, '', 'org_a'), null, value);
    const reasoning = sealer.seal('reasoning', text, from);
    t.match(reasoning, /^enc2\./);
    t.same(sealer.unseal('reasoning', reasoning, 'org_a'), { text, model: 'tycho-1.0', origin });
    t.equal(sealer.unseal('compaction', reasoning, 'org_a'), null);
    t.equal(sealer.unseal('reasoning', reasoning, 'org_b'), null);
    t.equal(sealer.unseal('reasoning', `enc1.${reasoning.slice(5)}`, 'org_a'), null, 'the version is bound');
    for (const value of spoiled(reasoning, 'enc2.')) t.equal(sealer.unseal('reasoning', value, 'org_a'), null, value);
  }
  const long = 'x'.repeat(10_000);
  const visible = sealer.signThinking(long, {
    ...here,
    origin: { upstream: 'u', block: { type: 'thinking', thinking: long } },
  });
  t.ok(visible.length < 1_000, 'the block does not repeat the visible text');
});

t.test('opening returns the model that sealed the value, and fails for a model that was never served', async (t) => {
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
    'a model that was served earlier is still known',
  );
});

t.test('field boundaries are authenticated', async (t) => {
  // Two model names, `x` with a number and the number alone. With organizations `org_` and `org_x`, both give the same
  // concatenated bytes and the same model byte. Only the field lengths differ.
  const byte = (name: string) => createHash('sha256').update(name).digest()[0];
  let whole = '';
  for (let n = 0; whole === ''; n++) if (byte(`x${n}`) === byte(`${n}`)) whole = `x${n}`;
  const rest = whole.slice(1);
  const both = await openSealer(await newState('lengths'), KEYS, [whole, rest]);
  const signed = both.signThinking(text, { organizationId: 'org_', model: whole });
  const sealed = both.sealThinking(text, { organizationId: 'org_', model: whole });
  t.equal(both.openThinking(signed, text, 'org_')?.model, whole);
  t.equal(both.openThinking(signed, text, 'org_x'), null, 'bytes cannot move from the model name to the organization');
  t.equal(both.openThinking(sealed, '', 'org_')?.model, whole);
  t.equal(both.openThinking(sealed, '', 'org_x'), null);
  let longer = '';
  for (let n = 0; longer === ''; n++) if (byte(`y${n}`) === byte(`y${n}z`)) longer = `y${n}z`;
  const shorter = longer.slice(0, -1);
  const named = await openSealer(await newState('names'), KEYS, [shorter, longer]);
  const begins = named.signThinking(`z${text}`, { organizationId: 'org_a', model: shorter });
  t.equal(named.openThinking(begins, `z${text}`, 'org_a')?.model, shorter);
  t.equal(named.openThinking(begins, text, 'org_a'), null, 'bytes cannot move from the text to the model name');
  for (const model of ['ü'.repeat(40), 'm'.repeat(300), '']) {
    t.same(
      named.unseal('reasoning', named.seal('reasoning', text, { organizationId: 'org_a', model }), 'org_a'),
      { text, model, origin: null },
      'the stored length determines where the name ends',
    );
  }
});

t.test('values open with earlier keys in any order, and not with removed keys', async (t) => {
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

t.test('keys with the same key id are distinguished', async (t) => {
  const many = Array.from({ length: 300 }, () => randomBytes(32).toString('hex'));
  const all = await openSealer(new LmdbSealerState(store), many, MODELS);
  for (const key of many.slice(-40)) {
    const alone = await openSealer(new LmdbSealerState(store), [key], MODELS);
    t.ok(all.openThinking(alone.signThinking(text, here), text, 'org_a'));
    t.ok(all.unseal('compaction', alone.seal('compaction', text, here), 'org_a'));
  }
});

t.test('without configured keys, a created key is kept and still opens values after it is replaced', async (t) => {
  const own = await newStore('own');
  const made = await openSealer(new LmdbSealerState(own), [], MODELS);
  const signature = made.signThinking(text, here);
  t.ok(
    (await openSealer(new LmdbSealerState(own), [], MODELS)).openThinking(signature, text, 'org_a'),
    'the key still opens values after a restart',
  );
  const replaced = await openSealer(new LmdbSealerState(own), KEYS, MODELS);
  t.ok(replaced.openThinking(signature, text, 'org_a'), 'the key opens values after keys are configured');
  t.not(replaced.signThinking(text, here), signature);
  const table = own.table<{ secret: Uint8Array; replacedAt: number }>('secrets');
  const record = table.get('signing-key')!;
  await table.put('signing-key', { ...record, replacedAt: Date.now() - 30 * 24 * 3_600_000 });
  t.ok(
    (await openSealer(new LmdbSealerState(own), KEYS, MODELS)).openThinking(signature, text, 'org_a'),
    'a replaced key is valid for 30 days',
  );
  await table.put('signing-key', { ...record, replacedAt: Date.now() - 32 * 24 * 3_600_000 });
  t.equal(
    (await openSealer(new LmdbSealerState(own), KEYS, MODELS)).openThinking(signature, text, 'org_a'),
    null,
    'a replaced key expires',
  );
  t.ok(
    (await openSealer(new LmdbSealerState(own), [], MODELS)).openThinking(signature, text, 'org_a'),
    'the key is current again when no keys are configured',
  );
  t.equal(
    (await openSealer(await newState('third'), [], MODELS)).openThinking(signature, text, 'org_a'),
    null,
    'the value does not open on another server',
  );
});

t.test('the error names the position of an invalid key', async (t) => {
  for (const bad of ['', 'zz'.repeat(32), '11'.repeat(31), '11'.repeat(33)]) {
    await t.rejects(openSealer(new LmdbSealerState(store), [KEYS[0]!, bad], MODELS), {
      name: 'StartError',
      message: /^secrets\.signing_keys: key 2 must be 64 hexadecimal digits\.$/,
    });
  }
  await t.rejects(openSealer(new LmdbSealerState(store), ['x'], MODELS), StartError);
});

t.test('signing and sealing 8 MiB takes less than a second of CPU time', async (t) => {
  const long = 'x'.repeat(8 << 20);
  const before = process.cpuUsage();
  t.ok(sealer.openThinking(sealer.signThinking(long, here), long, 'org_a'));
  t.equal(sealer.openThinking(sealer.sealThinking(long, here), '', 'org_a')?.text.length, long.length);
  t.ok(process.cpuUsage(before).user < 1_000_000);
});
