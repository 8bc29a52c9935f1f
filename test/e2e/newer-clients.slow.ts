// Repeats the tests of tools and responses with version 7 of the openai client. Part of npm run test:slow.
import { testWithOpenAi7 } from '../support/newer-node.js';

for (const name of ['chat-tools', 'responses-create']) testWithOpenAi7(`e2e/${name}`);
