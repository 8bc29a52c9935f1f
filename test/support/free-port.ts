// A port for a program that a test starts and that must be told one.
import { once } from 'node:events';
import { createServer, type AddressInfo } from 'node:net';

/** Free a moment ago: whoever starts on it should be quick. */
export async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, 'close');
  return port;
}
