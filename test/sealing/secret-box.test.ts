// Tests the encryption of account secrets at rest, and the encryption primitives that all sealed values use.
import t from 'tap';
import { decode, decrypt, encrypt, fields } from '../../src/accounts/sealing/boxes.js';
import { KeyRing, SECRET_BYTES } from '../../src/accounts/sealing/key-ring.js';
import { KeySealer } from '../../src/accounts/sealing/key-sealer.js';
import { SecretBox, type SecretPurpose } from '../../src/accounts/sealing/secret-box.js';
import { knownNames } from '../../src/accounts/sealing/sealer-state.js';

const secret = (byte: number): Uint8Array => new Uint8Array(SECRET_BYTES).fill(byte);
const [OLD, NEW] = [secret(1), secret(2)];
const boxOf = (...keys: Uint8Array[]): SecretBox => new SecretBox(new KeyRing(keys));

t.test('a secret opens only for its purpose and user, and reports whether its key is the current one', (t) => {
  const sealed = boxOf(OLD).seal('second factor', 'user_a', 'geheim ü');
  t.match(sealed, /^acc1\.[\w-]+$/);
  t.notMatch(Buffer.from(sealed.slice(5), 'base64url').toString('latin1'), 'geheim');
  t.not(
    sealed,
    boxOf(OLD).seal('second factor', 'user_a', 'geheim ü'),
    'sealing the same text twice gives different values',
  );
  t.same(boxOf(OLD).open('second factor', 'user_a', sealed), { text: 'geheim ü', current: true });
  t.same(boxOf(NEW, OLD).open('second factor', 'user_a', sealed), { text: 'geheim ü', current: false });
  t.equal(boxOf(NEW).open('second factor', 'user_a', sealed), null, 'a removed key no longer opens the value');
  t.equal(boxOf(OLD).open('second factor', 'user_b', sealed), null);
  for (const purpose of ['sign-in ticket', 'sign-in elsewhere', 'saved text'] satisfies SecretPurpose[])
    t.equal(boxOf(OLD).open(purpose, 'user_a', sealed), null, purpose);
  t.same(boxOf(OLD).open('second factor', 'user_a', boxOf(OLD).seal('second factor', 'user_a', '')), {
    text: '',
    current: true,
  });
  t.end();
});

t.test('a value that differs in any byte does not open', (t) => {
  const box = boxOf(OLD);
  const sealed = box.seal('sign-in ticket', '', 'x');
  const bytes = Buffer.from(sealed.slice(5), 'base64url');
  for (let at = 0; at < bytes.length; at++) {
    const copy = Buffer.from(bytes);
    copy[at] = copy[at]! ^ 1;
    t.equal(box.open('sign-in ticket', '', `acc1.${copy.toString('base64url')}`), null, `byte ${at}`);
  }
  for (const value of [
    '',
    'acc1.',
    'acc1.A',
    sealed.slice(1),
    sealed.slice(5),
    `enc1.${sealed.slice(5)}`,
    `${sealed}A`,
    `${sealed}=`,
    sealed.slice(0, -2),
  ])
    t.equal(box.open('sign-in ticket', '', value), null, value);
  t.end();
});

t.test('a value above the maximum length of its purpose does not open', (t) => {
  const box = boxOf(OLD);
  const of = (purpose: SecretPurpose, characters: number): string => {
    const sealed = box.seal(purpose, 'a', 'x'.repeat(Math.floor(((characters - 5) * 3) / 4) - 29));
    t.equal(sealed.length, characters);
    return sealed;
  };
  t.ok(box.open('second factor', 'a', of('second factor', 8_192)));
  t.equal(box.open('second factor', 'a', of('second factor', 8_193)), null);
  t.ok(box.open('saved text', 'a', of('saved text', 1_700_000)));
  t.equal(box.open('saved text', 'a', of('saved text', 1_700_001)), null);
  t.end();
});

t.test(
  'boxes: empty text gives the shortest payload, base64url must be canonical, and fields are length-prefixed',
  (t) => {
    const key = Buffer.alloc(32, 3);
    const bound = fields('a');
    const empty = Buffer.concat(encrypt(key, bound, Buffer.alloc(0)));
    t.equal(empty.length, 28);
    t.same(decrypt(key, bound, empty), Buffer.alloc(0));
    for (const end of [0, 11, 12, 27]) t.equal(decrypt(key, bound, empty.subarray(0, end)), null);
    t.equal(decrypt(key, fields('b'), empty), null);
    t.same(decode('AQI'), Buffer.from([1, 2]));
    t.same(decode(''), Buffer.alloc(0));
    for (const other of ['AQJ', 'AQI=', 'AQ I', 'A', '+/+/', ' AQI']) t.equal(decode(other), null, other);
    const long = 'A'.repeat(64 * 1024 * 1024);
    t.equal(
      decode(long)?.length,
      48 * 1024 * 1024,
      'the longest accepted value equals the maximum size of a request body',
    );
    t.equal(decode(`${long}AAAA`), null);
    t.same(fields('a', Buffer.from('bc')), Buffer.from([0, 0, 0, 1, 97, 0, 0, 0, 2, 98, 99]));
    t.end();
  },
);

t.test('a value too short for its header does not open, even with key ids of one byte', (t) => {
  const ring = new KeyRing([OLD, OLD]);
  const sealer = new KeySealer(ring, ['hal-1.0', 'hal-1.0']);
  sealer.know('hal-1.0');
  t.equal(ring.named(ring.current.id).length, 2, 'two keys share one key id');
  t.same(ring.named((ring.current.id + 1) % 256), []);
  for (const bytes of [[], [1], [1, ring.current.id], [2, ring.current.id], [1, ring.current.id, 0]])
    t.equal(sealer.openThinking(Buffer.from(bytes).toString('base64url'), '', 'org_a'), null);
  t.equal(sealer.unseal('reasoning', 'enc1.', 'org_a'), null);
  const sealed = sealer.seal('reasoning', 'x', { organizationId: 'org_a', model: 'hal-1.0' });
  t.same(sealer.unseal('reasoning', sealed, 'org_a'), { text: 'x', model: 'hal-1.0', origin: null });
  t.equal(
    sealer.unseal('reasoning', `enc2.${sealed.slice(5)}`, 'org_a'),
    null,
    'a value with an unknown prefix does not open',
  );
  t.throws(() => new KeyRing([]), /needs at least one key/);
  t.throws(() => new KeyRing([OLD, new Uint8Array(31)]), /32 bytes/);
  t.same(
    ring.current.id,
    new KeyRing([NEW, OLD]).named(ring.current.id)[0]?.id,
    'the key id does not depend on the position of the key',
  );
  const other = new KeyRing([NEW]).current;
  const purposes = [
    'thinkingSignature',
    'thinkingText',
    'reasoning',
    'compaction',
    'accountSecrets',
    'affinity',
  ] as const;
  const all = [ring.current, other].flatMap((key) => purposes.map((purpose) => key[purpose]));
  for (const derived of all) t.equal(derived.length, 32);
  t.equal(
    new Set(all.map((derived) => derived.toString('hex'))).size,
    12,
    'each purpose of each secret has its own derived key',
  );
  t.end();
});

t.test('known names: at most a thousand, current ones first, unchanged if there is no new name', (t) => {
  t.same(knownNames(['a'], []), ['a']);
  t.same(knownNames(['b', 'a'], ['a']), ['b', 'a']);
  t.equal(knownNames(['a'], ['b', 'a']), null);
  t.equal(knownNames([], []), null);
  const before = Array.from({ length: 1_000 }, (_, at) => `old-${at}`);
  t.equal(knownNames(before.slice(5), before), null);
  const next = knownNames(['new'], before);
  t.equal(next?.length, 1_000);
  t.same([next?.[0], next?.[1], next?.at(-1)], ['new', 'old-0', 'old-998'], 'the last name is dropped');
  const many = Array.from({ length: 1_005 }, (_, at) => `now-${at}`);
  t.same(knownNames(many, before), many, 'all current names are kept, even above the limit');
  t.same(knownNames(['a', 'b'], ['a', 'c', 'c']), ['a', 'b', 'c']);
  t.end();
});
