import t from 'tap';
import { AddressList, parseRange } from '../../src/shared/address-list.js';

t.test('addresses and CIDR ranges are accepted, everything else is not', (t) => {
  for (const text of ['203.0.113.7', '10.0.0.0/8', '0.0.0.0/0', '2001:db8::/32', '::1', '::/0', '::ffff:10.0.0.1'])
    t.not(parseRange(text), null, text);
  for (const text of [
    '',
    '/8',
    '10.0.0/8',
    '10.0.0.0/33',
    '10.0.0.0/',
    '10.0.0.0/-1',
    '10.0.0.0/8/8',
    '10.0.0.0/08x',
    '2001:db8::/129',
    'fe80::1%eth0',
    'example.com',
    '010.0.0.1',
    ' 10.0.0.1',
  ])
    t.equal(parseRange(text), null, text);
  t.end();
});

t.test('an address is allowed if an entry contains it, in every notation', (t) => {
  const list = new AddressList(['10.1.0.0/16', '203.0.113.7', '2001:db8::/32']);
  for (const address of [
    '10.1.255.255',
    '203.0.113.7',
    '2001:db8:ffff::1',
    '2001:0db8:0000:0000:0000:0000:0000:0001',
    '::ffff:10.1.2.3',
    '0000:0000:0000:0000:0000:ffff:0a01:0203',
  ])
    t.ok(list.allows(address), address);
  for (const address of ['10.2.0.0', '203.0.113.8', '2001:db9::1', '::ffff:10.2.0.0', '0:0:0:0:0:ffff:0a02:0', '', 'x'])
    t.notOk(list.allows(address), address);
  t.ok(new AddressList(['::/0']).allows('2001:db8::1'));
  t.ok(new AddressList(['0.0.0.0/0']).allows('255.255.255.255'));
  t.notOk(new AddressList(['0.0.0.0/0']).allows('2001:db8::1'), 'an IPv4 range contains no IPv6 address');
  t.equal(AddressList.of([]), null);
  t.equal(AddressList.of(undefined), null);
  t.notOk(AddressList.of(['not an address'])?.allows('10.0.0.1'), 'an invalid entry allows nothing');
  t.end();
});
