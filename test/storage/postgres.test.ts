// Tests the shared database on a real PostgreSQL: schema migrations, failures as clients see them, and notifications
// between processes.

import t from 'tap';
import { ApiError } from '../../src/shared/errors.js';
import { openPool, type DatabaseSettings } from '../../src/storage/postgres/database.js';
import { DATABASE_VERSION, migrate, stillTaken, MIGRATIONS } from '../../src/storage/postgres/migrations.js';
import type { Migration } from '../../src/storage/postgres/migrations/migration.js';
import { Notifications } from '../../src/storage/postgres/notifications.js';
import { ALIVE, ProcessLease } from '../../src/storage/postgres/process-lease.js';
import { ProcessBus } from '../../src/storage/postgres/process-bus.js';
import { openSharedDatabase } from '../../src/storage/postgres/shared-database.js';
import { LocalBus, type BusTopics } from '../../src/shared/bus.js';
import type { Log } from '../../src/telemetry/types.js';
import { leaveOutIf } from '../support/needed-programs.js';
import { startPostgres, withoutPostgres } from '../support/postgres.js';

t.setTimeout(300_000); // the machine may be busy

leaveOutIf(t, withoutPostgres);
const postgres = await startPostgres({ settings: { deadlock_timeout: '20ms' } });
t.teardown(() => postgres.close());
const settingsOf = (url: string, more: Partial<DatabaseSettings> = {}): DatabaseSettings => ({
  url,
  connections: 4,
  timeout_ms: 10_000,
  ...more,
});
const tablesOf = async (url: string): Promise<string[]> =>
  (
    await postgres.ask<{ line: string }>(
      url,
      `SELECT table_name || '.' || column_name || ' ' || data_type || ' ' || is_nullable || ' ' || coalesce(column_default, '') AS line FROM information_schema.columns WHERE table_schema = 'public' ORDER BY 1`,
    )
  )
    .map(({ line }) => line)
    .concat(
      (
        await postgres.ask<{ line: string }>(
          url,
          `SELECT indexdef AS line FROM pg_indexes WHERE schemaname = 'public' ORDER BY 1`,
        )
      ).map(({ line }) => line),
    );
const eventually = async (met: () => boolean | Promise<boolean>, ms = 10_000): Promise<boolean> => {
  for (
    const end = Date.now() + ms;
    Date.now() < end;
    await new Promise((done) => {
      setTimeout(done, 20);
    })
  )
    if (await met()) return true;
  return false;
};

t.test('an empty database and every earlier schema version are migrated, even with concurrent startups', async (t) => {
  const url = await postgres.create();
  await Promise.all([1, 2, 3].map(() => migrate(settingsOf(url))));
  const whole = await tablesOf(url);
  t.ok(whole.length > 20, `${whole.length} lines`);
  t.same(
    (await postgres.ask<{ version: number }>(url, 'SELECT version FROM monolith_versions ORDER BY 1')).map(
      ({ version }) => version,
    ),
    Array.from({ length: DATABASE_VERSION }, (_, at) => at + 1),
  );
  for (let version = 0; version < DATABASE_VERSION; version++) {
    const earlier = await postgres.create();
    await migrate(settingsOf(earlier), version);
    await migrate(settingsOf(earlier));
    t.same(await tablesOf(earlier), whole, `migrated from version ${version}`);
  }
});

const ADDS: Migration = {
  what: 'a column more',
  oldest: 1,
  statements: ['ALTER TABLE processes ADD COLUMN note text'],
};

t.test('a release starts on a later schema only if that schema allows it', async (t) => {
  const url = await postgres.create();
  await migrate(settingsOf(url), DATABASE_VERSION + 1, [...MIGRATIONS, ADDS]);
  await migrate(settingsOf(url));
  const later = DATABASE_VERSION + 2;
  await migrate(settingsOf(url), later, [
    ...MIGRATIONS,
    ADDS,
    { what: 'another meaning', oldest: later, statements: ['ALTER TABLE processes RENAME COLUMN note TO remark'] },
  ]);
  await t.rejects(migrate(settingsOf(url)), {
    name: 'StorageError',
    message: new RegExp(
      `has version ${later}, which requires releases of version ${later} or later; this release has version ${DATABASE_VERSION}\\.`,
    ),
  });
});

t.test('a migration that breaks earlier releases waits until their processes have ended', async (t) => {
  const url = await postgres.create();
  await migrate(settingsOf(url));
  const database = openPool(settingsOf(url));
  t.teardown(() => database.close());
  const running = await ProcessLease.open(database);
  const version = DATABASE_VERSION + 1;
  const alone = [
    ...MIGRATIONS,
    {
      what: 'another meaning',
      oldest: version,
      statements: ['ALTER TABLE processes RENAME COLUMN started_at TO since'],
    },
  ];
  await t.rejects(migrate(settingsOf(url), version, alone), {
    name: 'StorageError',
    message: new RegExp(
      `is in use by 1 thread of processes of an earlier release that cannot work with version ${version}`,
    ),
  });
  t.same(await postgres.ask<{ version: number }>(url, 'SELECT max(version) AS version FROM monolith_versions'), [
    { version: DATABASE_VERSION },
  ]);
  await migrate(settingsOf(await postgres.create()), version, alone); // an empty database has no such processes
  await running.close();
  await migrate(settingsOf(url), version, alone);
  t.same(await postgres.ask<{ version: number }>(url, 'SELECT max(version) AS version FROM monolith_versions'), [
    { version },
  ]);
  await t.rejects(
    stillTaken(database),
    { name: 'StorageError', message: /was upgraded for releases/ },
    'a process that registers only after the migration exits',
  );
});

t.test('a process renews its lease while it runs, even an expired one', async (t) => {
  const url = await postgres.create();
  await migrate(settingsOf(url));
  const database = openPool(settingsOf(url));
  const lease = await ProcessLease.open(database);
  t.teardown(async () => {
    await lease.close();
    await database.close();
  });
  await database.execute('UPDATE processes SET lease_until = 0 WHERE id = $1', [lease.id]);
  t.ok(
    await eventually(async () => (await database.query(ALIVE)).length === 1),
    'the lease is renewed every 2.5 seconds',
  );
  await lease.close();
  t.same(await database.query(ALIVE), [], 'a closed lease is not renewed');
});

t.test('a failed migration leaves no tables behind', async (t) => {
  const url = await postgres.create();
  await postgres.ask(url, 'CREATE TABLE response_holds (mine integer)');
  await t.rejects(migrate(settingsOf(url)), { name: 'StorageError', message: /response_holds/ });
  t.same(
    (await tablesOf(url)).filter((line) => line.startsWith('responses.')),
    [],
  );
  await postgres.ask(url, 'DROP TABLE response_holds');
  await migrate(settingsOf(url));
});

t.test('database errors at startup name the problem and contain no password', async (t) => {
  const url = await postgres.create();
  await migrate(settingsOf(url));
  await postgres.ask(url, "INSERT INTO monolith_versions (version, what, oldest) VALUES (1000, 'a later one', 1000)");
  await postgres.ask(
    postgres.url,
    "CREATE DATABASE latin ENCODING 'LATIN1' TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C'",
  );
  const wrong: [url: string, says: RegExp][] = [
    [
      url,
      /has version 1000, which requires releases of version 1000 or later; this release has version \d+\. Use the release that wrote it/,
    ],
    [postgres.url.replace(/monolith$/, 'absent'), /cannot be used: database "absent" does not exist/],
    [postgres.url.replace(/:[^:@]+@/, ':another-secret@'), /cannot be used: password authentication failed/],
    [postgres.url.replace(`:${postgres.port}`, ':1'), /cannot be reached: connect ECONNREFUSED/],
    [postgres.url.replace(/monolith$/, 'latin'), /has the encoding LATIN1; UTF8 is required/],
  ];
  for (const [address, says] of wrong) {
    const error = await migrate(settingsOf(address)).then(
      () => null,
      (thrown: Error) => thrown,
    );
    t.match(error, { name: 'StorageError', message: says });
    t.match(error?.message, /postgres:\/\/127\.0\.0\.1:\d+\//);
    t.notMatch(error?.message, /pass-word|another-secret|monolith:/);
  }
});

t.test('transactions are atomic and retried after a conflict', async (t) => {
  const url = await postgres.create();
  await postgres.ask(url, 'CREATE TABLE counted (id integer PRIMARY KEY, n bigint NOT NULL)');
  await postgres.ask(url, 'INSERT INTO counted VALUES (1, 0), (2, 0)');
  const database = openPool(settingsOf(url, { connections: 3 }));
  t.teardown(() => database.close());
  await t.rejects(
    database.transaction(async (within) => {
      await within.execute('UPDATE counted SET n = 100 WHERE id = $1', [1]);
      throw new Error('changed my mind');
    }),
    { message: 'changed my mind' },
  );
  await t.rejects(
    database.execute('INSERT INTO counted VALUES ($1, $2)', [1, 1]),
    { code: '23505' },
    'a duplicate key is not reported as a database failure',
  );
  // Half of the transactions lock the rows in the opposite order, and PostgreSQL aborts one of two deadlocked
  // transactions.
  let runs = 0;
  await Promise.all(
    Array.from({ length: 16 }, (_, at) =>
      database.transaction(async (within) => {
        runs++;
        for (const id of at % 2 === 0 ? [1, 2] : [2, 1]) {
          await within.execute('UPDATE counted SET n = n + 1 WHERE id = $1', [id]);
          await within.query('SELECT pg_sleep(0.002)');
        }
      }),
    ),
  );
  t.same(
    await database.query('SELECT id, n FROM counted ORDER BY id'),
    [
      { id: 1, n: 16 },
      { id: 2, n: 16 },
    ],
    'bigint columns are returned as numbers',
  );
  t.ok(runs > 16, `${runs} attempts for 16 transactions`);
});

t.test('the connection pool stays within its limit and replaces broken connections', async (t) => {
  const url = await postgres.create();
  const database = openPool(settingsOf(url, { connections: 3 }));
  t.teardown(() => database.close());
  let most = 0;
  const look = setInterval(() => {
    most = Math.max(most, database.load().connections);
  }, 1);
  await Promise.all(Array.from({ length: 50 }, () => database.query('SELECT pg_sleep(0.005)')));
  clearInterval(look);
  t.ok(most <= 3, `${most} connections`);
  t.equal(database.load().waiting, 0);
  await postgres.ask(
    postgres.url,
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'monolith'",
  );
  t.ok(await eventually(async () => (await database.query('SELECT 1 AS one').catch(() => [])).length === 1));
});

t.test('a statement that exceeds the timeout is aborted with 503', async (t) => {
  const url = await postgres.create();
  const failures: object[] = [];
  const database = openPool(settingsOf(url, { timeout_ms: 200 }), { onFailure: (failure) => failures.push(failure) });
  t.teardown(() => database.close());
  await t.rejects(database.query('SELECT pg_sleep(30)'), { status: 503, code: 'maintenance' });
  t.match(failures, [{ reason: /statement timeout/ }]);
  t.same(await database.query('SELECT 1 AS one'), [{ one: 1 }]);
});

t.test(
  'notifications sent while another is being sent are batched into the next statement, in order and without overlap',
  async (t) => {
    const warned: string[] = [];
    const warn = ({ message }: Error): void => {
      warned.push(message);
    };
    process.on('warning', warn);
    const heard: string[] = [];
    const notifications = await Notifications.open(settingsOf(postgres.url), { onMessage: (text) => heard.push(text) });
    t.teardown(() => {
      process.off('warning', warn);
      return notifications.close();
    });
    const all = Array.from({ length: 50 }, (_, one) => `${one} ${'x'.repeat(4_000)}`);
    t.ok((await Promise.all(all.map((text) => notifications.send(text)))).every((told) => told));
    t.ok(await eventually(() => heard.length >= all.length));
    t.same(heard, all);
    t.same(warned, []);
  },
);

t.test('a notification that cannot be parsed is skipped, and the following ones are delivered', async (t) => {
  const heard: string[] = [],
    unheard: unknown[] = [];
  const onMessage = (text: string): void => {
    heard.push(text);
    if (text === 'bad') throw new Error('not understood');
  };
  const notifications = await Notifications.open(settingsOf(postgres.url), {
    onMessage,
    onUnheard: (error) => unheard.push(error),
  });
  t.teardown(() => notifications.close());
  for (const text of ['bad', 'good', 'bad', 'better']) t.ok(await notifications.send(text));
  t.ok(await eventually(() => heard.length >= 4));
  t.same(heard, ['bad', 'good', 'bad', 'better']);
  t.match(unheard, [{ message: 'not understood' }, { message: 'not understood' }]);
});

t.test('the bus between processes delivers log events and returns one reply per process', async (t) => {
  const url = await postgres.create();
  const open = async () => {
    const shared = await openSharedDatabase(settingsOf(url), true, {} as Log);
    const lease = await ProcessLease.open(shared.database);
    const bus = new ProcessBus(new LocalBus(), shared, shared.database, lease.id);
    const close = async (): Promise<void> => {
      bus.close();
      await lease.close();
      await shared.close();
    };
    t.teardown(close);
    return { bus, close, shared };
  };
  const [one, two, three] = [await open(), await open(), await open()];
  const heard: BusTopics['response.logged']['message'][] = [];
  const stop = two.bus.on('response.logged', (message) => {
    heard.push(message);
  });
  one.bus.on('response.logged', ({ id }) => {
    t.fail(`${id} was delivered to the process that sent it`);
  });
  const end = (data: string) => [{ sequence: 1, type: 'response.completed', data }];
  for (const id of ['a', 'b', 'a']) one.bus.publish('response.logged', { id, ended: false });
  one.bus.publish('response.logged', { id: 'c', ended: true, end: end('{}') });
  one.bus.publish('response.logged', { id: 'd', ended: true, end: end('x'.repeat(9_000)) });
  one.bus.publish('accounts.changed', { organizationId: null }); // this topic stays within the process
  const none = [
    '{no JSON',
    'null',
    '5',
    '[]',
    '{}',
    '{"from":"x"}',
    '{"kind":"logged","from":"x"}',
    '{"kind":"logged","from":"x","messages":5}',
    '{"kind":"logged","from":"x","messages":[null]}',
    '{"kind":"later","from":"x"}',
    '{"kind":"ask","from":"x","n":1,"topic":"accounts.changed","message":{"id":"a"}}',
    '{"kind":"ask","from":"x","n":1,"topic":"response.cancel","message":null}',
    '{"kind":"answer","from":"x","to":"y","n":1,"answers":5}',
  ];
  // Anyone who can connect to the database could send such malformed messages.
  for (const text of none) await two.shared.notify(`bus ${text}`);
  t.ok(await eventually(() => heard.length >= 4));
  one.bus.publish('response.logged', { id: 'e', ended: false });
  t.ok(await eventually(() => heard.length >= 5));
  t.same(heard, [
    { id: 'a', ended: false },
    { id: 'b', ended: false },
    { id: 'c', ended: true, end: end('{}') },
    { id: 'd', ended: true },
    { id: 'e', ended: false },
  ]);
  stop();

  let asked = 0;
  two.bus.on('response.running', () => {
    throw new Error('a listener that fails');
  });
  three.bus.on('response.running', async ({ id }) => {
    asked++;
    if (id === 'slow')
      await new Promise((done) => {
        setTimeout(done, 400);
      }); // longer than the interval between two requests
    return id !== 'none';
  });
  const ask = (id: string) =>
    one.bus.ask('response.running', { organizationId: 'org_a', id, foreground: true }, 10_000);
  t.same([await ask('there'), await ask('none'), await ask('slow'), asked], [[true], [false], [true], 3]);
  await two.close();
  await three.close();
  t.same(await ask('there'), [], 'no other process is left to reply');
});

t.test('notifications queued when the connection is lost fail and are not delivered', async (t) => {
  const notifications = await Notifications.open(settingsOf(postgres.url), { onMessage: () => undefined });
  t.teardown(() => notifications.close());
  const [newest] = await postgres.ask<{ pid: number }>(
    postgres.url,
    `SELECT pid FROM pg_stat_activity WHERE application_name = 'monolith' ORDER BY backend_start DESC LIMIT 1`,
  );
  process.kill(newest!.pid, 'SIGSTOP');
  const told = [notifications.send('one'), notifications.send('two')];
  await postgres.ask(postgres.url, 'SELECT pg_terminate_backend($1)', [newest!.pid]);
  process.kill(newest!.pid, 'SIGCONT');
  t.same(await Promise.all(told), [false, false]);
});

t.test('a lost database connection gives 503, is logged once, and recovers without a restart', async (t) => {
  const failures: { reason: string; database: string }[] = [];
  const database = openPool(settingsOf(postgres.url), { onFailure: (failure) => failures.push(failure) });
  const heard: string[] = [];
  let restored = 0;
  const notifications = await Notifications.open(settingsOf(postgres.url), {
    onMessage: (text) => heard.push(text),
    onRestored: () => restored++,
  });
  const other = await Notifications.open(settingsOf(postgres.url), { onMessage: () => undefined });
  t.teardown(async () => {
    await Promise.all([database.close(), notifications.close(), other.close()]);
  });
  t.equal(await other.send('one'), true);
  t.ok(await eventually(() => heard.includes('one')));
  t.equal(await other.send('x'.repeat(9_000)), false, 'a message over the size limit of a notification is not sent');
  await database.query('SELECT 1');
  const sleeping = database.query('SELECT pg_sleep(30)').catch((error: unknown) => error);
  await postgres.kill();
  const errors = [
    await sleeping,
    await database.query('SELECT 1').catch((error: unknown) => error),
    await database.transaction(async () => undefined).catch((error: unknown) => error),
  ];
  for (const error of errors)
    t.match(error, {
      name: 'ApiError',
      status: 503,
      code: 'maintenance',
      message: 'The server cannot reach its database right now.',
    });
  t.ok(errors.every((error) => error instanceof ApiError));
  t.equal(failures.length, 1);
  t.notMatch(JSON.stringify(failures), /pass-word/);
  t.equal(await other.send('lost'), false);
  await postgres.start();
  t.same(await database.query('SELECT 1 AS one'), [{ one: 1 }]);
  t.ok(await eventually(() => restored === 1 && other.listening));
  await other.send('two');
  t.ok(await eventually(() => heard.includes('two')));
  t.notOk(heard.includes('lost'));
});
