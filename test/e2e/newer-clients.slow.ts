// Repeats the tests of tools and responses with version 7 of the openai client. Part of npm run test:slow.
import { testOnNewerNode } from './newer-node.js';

for (const name of ['chat-tools', 'responses-create']) testOnNewerNode(name);
