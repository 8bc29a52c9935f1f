// Repeats the openai client's tests with its version 7. newer-clients.slow.ts repeats the others that use this client.
import { testOnNewerNode } from './newer-node.js';

testOnNewerNode('openai-client');
