// Repeats the openai client's tests with version 7 of the client. newer-clients.slow.ts repeats the other tests that
// use this client.
import { testWithOpenAi7 } from '../support/newer-node.js';

testWithOpenAi7('e2e/openai-client');
