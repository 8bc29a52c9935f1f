// Tests one-time codes with the test vectors from the standards.
import t from 'tap';
import { base32, codeAt, otpauthUri, stepAt, stepOf } from '../../src/accounts/totp.js';

const SECRET = Buffer.from('12345678901234567890');

t.test('codes match RFC 4226, appendix D', async (t) => {
  const wanted = ['755224', '287082', '359152', '969429', '338314', '254676', '287922', '162583', '399871', '520489'];
  t.same(
    wanted.map((_, step) => codeAt(SECRET, step)),
    wanted,
  );
});

t.test('codes match the last six of the eight digits in RFC 6238, appendix B', async (t) => {
  const vectors: [number, string][] = [
    [59, '94287082'],
    [1111111109, '07081804'],
    [1111111111, '14050471'],
    [1234567890, '89005924'],
    [2000000000, '69279037'],
    [20000000000, '65353130'],
  ];
  for (const [seconds, code] of vectors)
    t.equal(codeAt(SECRET, stepAt(seconds * 1000)), code.slice(2), String(seconds));
});

t.test('codes of the current, previous and next step are accepted, and no others', async (t) => {
  const now = 1_234_567_890_000;
  const step = stepAt(now);
  for (const [beside, found] of [
    [-2, null],
    [-1, step - 1],
    [0, step],
    [1, step + 1],
    [2, null],
  ] as const)
    t.equal(stepOf(SECRET, codeAt(SECRET, step + beside), now), found, String(beside));
  for (const wrong of ['', '12345', '1234567', 'abcdef', '１２３４５６'])
    t.equal(stepOf(SECRET, wrong, now), null, wrong);
});

t.test('secrets are encoded in base32 (RFC 4648) in a URI that authenticator apps accept', async (t) => {
  t.same(
    ['', 'f', 'fo', 'foo', 'foob', 'fooba', 'foobar'].map((text) => base32(Buffer.from(text))),
    ['', 'MY', 'MZXQ', 'MZXW6', 'MZXW6YQ', 'MZXW6YTB', 'MZXW6YTBOI'],
  );
  const uri = new URL(otpauthUri(SECRET, 'Monolith a.example:8080', 'ada+b@example.com'));
  t.equal(
    decodeURIComponent(uri.pathname),
    '//totp/Monolith a.example:8080:ada+b@example.com'.replace('//totp', uri.host === 'totp' ? '' : '//totp'),
  );
  t.same(Object.fromEntries(uri.searchParams), {
    secret: 'GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ',
    issuer: 'Monolith a.example:8080',
    algorithm: 'SHA1',
    digits: '6',
    period: '30',
  });
});
