// Tests that processes that share state must have both a shared Redis and a shared database.
import t from 'tap';
import { configWith } from '../../src/config/load.js';
import { checkShared } from '../../src/server/shared-settings.js';

t.test('if only one of Redis and the database is configured, startup fails and names the other setting', (t) => {
  const database = { url: 'postgres://localhost/monolith' };
  const redis = { url: 'redis://localhost' };
  t.throws(() => checkShared(configWith({ database })), {
    name: 'StartError',
    message: /^database\.url is set, but redis\.url is not/,
  });
  t.throws(() => checkShared(configWith({ redis })), {
    name: 'StartError',
    message: /^redis\.url is set, but database\.url is not/,
  });
  checkShared(configWith({ database, redis }));
  checkShared(configWith({}));
  t.end();
});
