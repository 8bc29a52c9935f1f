// Sends each request on its own connection. New connections are distributed across the HTTP workers, whereas a client
// that keeps its connection always reaches the same worker.
import { once } from 'node:events';
import { type Agent, request, type IncomingMessage } from 'node:http';
import { text } from 'node:stream/consumers';

interface Place {
  port: number;
  key: string;
}

async function open(
  { port, key }: Place,
  path: string,
  body: object,
  agent: Agent | false,
): Promise<{ response: IncomingMessage; leave(): void }> {
  const sent = request({
    host: '127.0.0.1',
    port,
    method: 'POST',
    path,
    agent,
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
  });
  sent.on('error', () => undefined);
  sent.end(JSON.stringify(body));
  const [response] = (await once(sent, 'response')) as [IncomingMessage];
  return { response, leave: () => sent.destroy() };
}

export async function post(place: Place, path: string, body: object): Promise<{ status: number; text: string }> {
  const { response } = await open(place, path, body, false);
  return { status: response.statusCode ?? 0, text: await text(response) };
}

/** Resolves with the status. The response body is left unread, so the request keeps running until `leave` is called. */
export async function hold(
  place: Place,
  path: string,
  body: object,
  agent: Agent | false = false,
): Promise<{ status: number; leave(): void }> {
  const { response, leave } = await open(place, path, body, agent);
  response.on('error', () => undefined).resume();
  return { status: response.statusCode ?? 0, leave };
}
