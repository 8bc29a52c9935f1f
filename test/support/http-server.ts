// The HTTP server that tests run on. TEST_HTTP_SERVER selects it; the default is uws where its binary loads, else node.
import { configWith } from '../../src/config/load.js';
import { chooseServer } from '../../src/http/server-choice.js';

const wanted = process.env['TEST_HTTP_SERVER'] ?? 'auto';

export const httpServer = chooseServer(configWith({ http: { server: wanted } }).http).server;
export const onNode = httpServer === 'node';
