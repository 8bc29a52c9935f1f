// Tests the resolution of host names chosen by untrusted clients, with a test DNS server that may fail or not respond.
import { createSocket } from 'node:dgram';
import { lookup } from 'node:dns/promises';
import type { AddressInfo } from 'node:net';
import t from 'tap';
import { resolveHost } from '../../src/shared/resolve-host.js';

const A = 1,
  AAAA = 28;
/** `silent`: the server does not respond; a number: the error code it returns. */
const answers = new Map<string, readonly number[][] | 'silent' | number>([
  [
    'four.test',
    [
      [93, 184, 216, 34],
      [93, 184, 216, 35],
    ],
  ],
  ['silent.test', 'silent'],
  ['broken.test', 2],
  ['none.test', []],
  ['half.test', [[93, 184, 216, 34]]],
]);
let asked = 0;
const server = createSocket('udp4').on('message', (question, { port, address }) => {
  asked++;
  const labels: string[] = [];
  let at = 12;
  for (; question[at] !== 0; at += question[at]! + 1)
    labels.push(question.toString('latin1', at + 1, at + 1 + question[at]!));
  const type = question.readUInt16BE(at + 1),
    name = labels.slice(-2).join('.');
  const known = name === 'half.test' && type === AAAA ? 2 : (answers.get(name) ?? 3);
  if (known === 'silent') return;
  const found = typeof known === 'number' || type !== A ? [] : known;
  const head = Buffer.from(question.subarray(0, at + 5));
  head.writeUInt16BE(0x8180 | (typeof known === 'number' ? known : 0), 2);
  head.writeUInt16BE(found.length, 6);
  head.writeUInt16BE(0, 10);
  server.send(
    Buffer.concat([head, ...found.map((bytes) => Buffer.from([0xc0, 12, 0, A, 0, 1, 0, 0, 0, 0, 0, 4, ...bytes]))]),
    port,
    address,
  );
});
await new Promise<void>((resolve) => server.bind(0, '127.0.0.1', resolve));
t.teardown(() => server.close());
const servers = [`127.0.0.1:${(server.address() as AddressInfo).port}`];
const never = new AbortController().signal;

t.test('returns the addresses of a name, an empty list, or an error', async (t) => {
  t.same(await resolveHost('four.test', never, servers), [
    { address: '93.184.216.34', family: 4 },
    { address: '93.184.216.35', family: 4 },
  ]);
  t.same(
    await resolveHost('half.test', never, servers),
    [{ address: '93.184.216.34', family: 4 }],
    'the query for IPv6 fails, and the IPv4 address is returned',
  );
  t.same(await resolveHost('none.test', never, servers), []);
  t.same(await resolveHost('unknown.test', never, servers), [], 'an unknown name has no addresses');
  await t.rejects(resolveHost('broken.test', never, servers), { code: 'ESERVFAIL' });
  const before = asked;
  for (const name of ['localhost', 'localhost.', 'a.LOCALHOST']) t.same(await resolveHost(name, never, servers), []);
  t.equal(asked, before, 'localhost is not sent to the DNS server');
});

t.test('unresponsive DNS servers do not delay other names, and their queries stop when aborted', async (t) => {
  const leaving = new AbortController();
  const slow = Array.from({ length: 100 }, (_, i) => resolveHost(`a${i}.silent.test`, leaving.signal, servers));
  const began = performance.now();
  await lookup('localhost');
  t.same(await resolveHost('four.test', never, servers), [
    { address: '93.184.216.34', family: 4 },
    { address: '93.184.216.35', family: 4 },
  ]);
  t.ok(performance.now() - began < 1_000);
  leaving.abort(new Error('gone'));
  const ends = await Promise.allSettled(slow);
  t.ok(performance.now() - began < 1_500);
  t.ok(ends.every((end) => end.status === 'rejected' && (end.reason as Error).message === 'gone'));
  await t.rejects(resolveHost('four.test', leaving.signal, servers), { message: 'gone' });
});
