// Processes that share state need both a shared Redis and a shared database.
import t from 'tap';
import { configWith } from '../../src/config/load.js';
import { checkShared } from '../../src/server/shared-settings.js';

t.test('a start with only one of Redis and the database configured fails and names the missing setting', (t) => {
  const state = { url: 'postgres://localhost/monolith' };
  const counters = { url: 'redis://localhost' };
  t.throws(() => checkShared(configWith({ state })), {
    name: 'StartError',
    message: /^state\.url is set, but counters\.url is not/,
  });
  t.throws(() => checkShared(configWith({ counters })), {
    name: 'StartError',
    message: /^counters\.url is set, but state\.url is not/,
  });
  checkShared(configWith({ state, counters }));
  checkShared(configWith({}));
  t.end();
});
