// The HTTP server that tests run on. TEST_HTTP_SERVER selects it; the default is uws where its binary loads, else node.
import { configWith } from '../../src/config/load.js';
import { sharesPorts } from '../../src/http/node-threads.js';
import { chooseServer } from '../../src/http/server-choice.js';

const wanted = process.env['TEST_HTTP_SERVER'] ?? 'auto';

export const httpServer = chooseServer(configWith({ http: { server: wanted } }).http).server;
export const onNode = httpServer === 'node';
/** tap's `skip` option for tests with several HTTP workers: the reason, or false if they can run. */
export const withoutThreads: string | false =
  onNode && !sharesPorts() ? 'HTTP workers with http.server "node" need Node.js 22.12 or later' : false;
