// Tests a long prefill. When the keep-alive timer fires, the server sends the headers, then comments, then the
// response. A failure before that is reported with an error status.
import t from 'tap';
import { startScripted } from '../support/script-model.js';

t.setTimeout(300_000); // the machine may be busy

/** Returns the data of each event as older versions of openai-go parse it: every blank line ends an event. */
function dispatched(stream: string): string[] {
  const events: string[] = [];
  let data = '';
  for (const line of stream.split('\n').slice(0, -1)) {
    if (line === '') {
      events.push(data);
      data = '';
    } else if (line.startsWith('data:')) data += line.slice('data:'.length);
  }
  return events;
}

t.test('keep-alive comments are sent during a long prefill', async (t) => {
  // With one token per step, a long prompt takes a long time.
  const server = await startScripted({
    env: { MONOLITH_HTTP_KEEPALIVE_MS: '100', MONOLITH_ENGINE_MAX_BATCH_TOKENS: '1' },
  });
  t.teardown(() => server.stop());
  const long = `A: ${'word '.repeat(3_000)}`;
  const post = (path: string, body: object): Promise<Response> =>
    fetch(`${server.url}/v1${path}`, {
      method: 'POST',
      body: JSON.stringify({ model: 'hal-1.0', ...body }),
      headers: { 'content-type': 'application/json', authorization: `Bearer ${server.key}` },
    });
  const messages = [{ role: 'user', content: long }];
  const cases = [
    {
      path: '/chat/completions',
      body: { messages },
      silence: /^(: keep-alive\n){2,}data: \{/,
      end: /data: \[DONE\]\n\n$/,
    },
    {
      path: '/responses',
      body: { input: long, instructions: '2', store: false },
      silence: /event: response\.in_progress\ndata: .*\n\n(: keep-alive\n){2,}event: response\.output_item\.added\n/,
      end: /data: \[DONE\]\n\n$/,
    },
    {
      path: '/messages',
      body: { messages, system: '3', max_tokens: 50 },
      silence: /(event: ping\ndata: \{"type": ?"ping"\}\n\n){2,}event: (message_start|content_block_start)\n/,
      end: /event: message_stop\ndata: .*\n\n$/,
    },
  ];
  for (const { path, body, silence, end } of cases) {
    const response = await post(path, { ...body, stream: true });
    t.equal(response.status, 200, path);
    const text = await response.text();
    t.match(text, silence, path);
    t.match(text, end, path);
    t.notOk(dispatched(text).includes(''), `${path}: no blank line ends an event without data`);
  }
  const refused = await post('/responses', { input: 'x '.repeat(20_000), stream: true });
  t.equal(refused.status, 400);
  t.match(refused.headers.get('content-type'), /^application\/json/);
});
