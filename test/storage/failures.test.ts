// Tests how failures of the shared database are classified by the SQLSTATE that the PostgreSQL client reports, and
// which errors API clients get.
import t from 'tap';
import {
  isAnswer,
  isBroken,
  isConflict,
  isDuplicate,
  isUnavailable,
  reasonOf,
  unavailable,
} from '../../src/storage/postgres/failures.js';

const answer = (code: string): Error => Object.assign(new Error('what it said'), { code, severity: 'ERROR' });
const wayDown = (code: string): Error => Object.assign(new Error('connect ECONNREFUSED 127.0.0.1:1'), { code });

t.test('a database error has a SQLSTATE and a severity; any other error is a connection error', (t) => {
  t.equal(isAnswer(answer('23505')), true);
  for (const none of [
    wayDown('ECONNREFUSED'),
    wayDown('23505'),
    answer('2350'),
    answer('235055'),
    answer('2350a'),
    new Error('x'),
    null,
    undefined,
    'text',
    Object.assign(answer('23505'), { code: 23505 }),
  ])
    t.equal(isAnswer(none), false, String(none));
  t.end();
});

t.test('isConflict and isDuplicate recognize retryable errors and duplicate keys', (t) => {
  for (const [code, conflict, duplicate] of [
    ['40001', true, false],
    ['40P01', true, false],
    ['40002', false, false],
    ['23505', false, true],
    ['23503', false, false],
  ] as const) {
    t.same([isConflict(answer(code)), isDuplicate(answer(code))], [conflict, duplicate], code);
    t.same([isConflict(wayDown(code)), isDuplicate(wayDown(code))], [false, false]);
  }
  t.end();
});

t.test('isUnavailable and isBroken recognize transient errors and connections that must be closed', (t) => {
  const cases: [string, boolean, boolean][] = [
    ['08006', true, true],
    ['57P01', true, true],
    ['57014', true, false],
    ['53100', true, false],
    ['58030', true, false],
    ['28P01', true, false],
    ['3D000', true, false],
    ['XX001', true, false],
    ['25006', true, false],
    ['42501', true, false],
    ['40001', true, false],
    ['40P01', true, false],
    ['55P03', true, false],
    ['23505', false, false],
    ['42601', false, false],
    ['22001', false, false],
    ['25001', false, false],
    ['55000', false, false],
  ];
  for (const [code, away, broken] of cases)
    t.same([isUnavailable(answer(code)), isBroken(answer(code))], [away, broken], code);
  t.same(
    [isUnavailable(wayDown('ECONNRESET')), isBroken(wayDown('ECONNRESET')), isUnavailable('x'), isBroken(null)],
    [true, true, true, true],
  );
  t.end();
});

t.test('the reason of a database failure is included for the operator but not in the API error message', (t) => {
  t.equal(reasonOf(answer('53100')), 'what it said (53100)');
  t.equal(reasonOf(wayDown('ECONNREFUSED')), 'connect ECONNREFUSED 127.0.0.1:1');
  t.equal(reasonOf(new AggregateError([wayDown('x'), new Error('other')])), 'connect ECONNREFUSED 127.0.0.1:1; other');
  t.equal(reasonOf(new AggregateError([new Error('one')], 'all of them')), 'all of them');
  t.equal(reasonOf('text'), 'text');
  t.equal(reasonOf(null), 'null');
  const told = unavailable(answer('53100'));
  t.match(told, { status: 503, code: 'maintenance', message: 'The server cannot reach its database right now.' });
  t.equal((told.cause as Error).message, 'what it said');
  t.end();
});
