// Repeats the tests of HTTP rules, framing, bodies, streams, WebSockets and timeouts with http.server "node".
import t from 'tap';
import { testOnNewerNode } from '../support/newer-node.js';

t.setTimeout(300_000); // the machine may be busy
t.jobs = 3; // they wait more than they compute
for (const name of ['idle', 'framing', 'rules', 'reading', 'streaming', 'socket', 'large-answers'])
  testOnNewerNode(`http/${name}`);
