// Repeats the openai client's tests with its version 7. newer-clients.slow.ts repeats the others that use this client.
import { testWithOpenAi7 } from '../support/newer-node.js';

testWithOpenAi7('e2e/openai-client');
