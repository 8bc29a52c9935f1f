// Runs deploy/nginx.conf and deploy/haproxy-tls.cfg in front of a real server. Only addresses and certificate paths are
// replaced.
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { request as httpRequest } from 'node:http';
import { request } from 'node:https';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { connect } from 'node:tls';
import t from 'tap';
import { type ClientOptions, WebSocket } from 'ws';
import { eventually, root, startMonolith, type Monolith } from '../e2e/monolith.js';
import { httpServer as chosen } from '../support/http-server.js';
import { selfSigned } from '../support/certificate.js';
import { freePort } from '../support/free-port.js';

const HOST = 'models.example.com';
const find = (name: string): string | undefined =>
  [...(process.env['PATH'] ?? '').split(delimiter), '/usr/sbin']
    .map((folder) => join(folder, name))
    .find((path) => existsSync(path));

const start = (httpServer: string): Promise<Monolith> =>
  startMonolith({
    env: {
      MONOLITH_HTTP_SERVER: httpServer,
      MONOLITH_HTTP_TRUST_PROXY: 'true',
      MONOLITH_HTTP_ALLOWED_HOSTS: HOST,
      MONOLITH_DASHBOARD_URL: `https://${HOST}`,
    },
  });
// If this Node.js version has no binary of uWebSockets.js, only node:http is tested.
const kinds = [...new Set([chosen, 'node'])];
const servers = new Map(await Promise.all(kinds.map(async (kind) => [kind, await start(kind)] as const)));
for (const server of servers.values()) t.teardown(() => server.stop());
const folder = mkdtempSync(join(tmpdir(), 'monolith-proxies-'));
t.teardown(() => rmSync(folder, { recursive: true, force: true }));
const { key, cert } = selfSigned([HOST]);
writeFileSync(join(folder, 'privkey.pem'), key);
writeFileSync(join(folder, 'fullchain.pem'), cert);
writeFileSync(join(folder, 'haproxy.pem'), cert + key);

interface Ports {
  plain: number;
  tls: number;
}
interface Proxy {
  name: string;
  file: string;
  configure(text: string, ports: Ports): string;
  check(path: string): string[];
  run(path: string): string[];
}

const proxies: Proxy[] = [
  {
    name: 'nginx',
    file: 'nginx.conf',
    configure: (text, { plain, tls }) => {
      const site = join(folder, `site-${plain}.conf`);
      writeFileSync(
        site,
        text.replace('listen 80;', `listen 127.0.0.1:${plain};`).replace('listen 443 ', `listen 127.0.0.1:${tls} `),
      );
      mkdirSync(join(folder, `temporary-${plain}`), { recursive: true });
      const paths = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map(
        (one) => `${one}_temp_path ${join(folder, `temporary-${plain}`, one)};`,
      );
      return `daemon off; pid ${join(folder, `pid-${plain}`)}; error_log stderr;\nevents {}\nhttp { access_log off; ${paths.join(' ')} include ${site}; }\n`;
    },
    check: (path) => ['-t', '-c', path],
    run: (path) => ['-c', path],
  },
  {
    name: 'haproxy',
    file: 'haproxy-tls.cfg',
    configure: (text, { plain, tls }) =>
      text.replace('bind :80\n', `bind 127.0.0.1:${plain}\n`).replace('bind :443 ', `bind 127.0.0.1:${tls} `),
    check: (path) => ['-c', '-f', path],
    run: (path) => ['-db', '-f', path],
  },
];

const pairs = proxies.flatMap((proxy) => [...servers].map(([kind, server]) => ({ ...proxy, kind, server })));
for (const { name, file, configure, check, run, kind, server } of pairs) {
  const program = find(name);
  t.test(
    `${file} streams over TLS and redirects from HTTP, in front of ${kind}`,
    { skip: program === undefined && `${name} is not installed (Debian: apt-get install ${name})` },
    async (t) => {
      const ports = { plain: await freePort(), tls: await freePort() };
      const published = readFileSync(join(root, 'deploy', file), 'utf8')
        .replaceAll(`/etc/ssl/${HOST}`, folder)
        .replaceAll('127.0.0.1:8080', `127.0.0.1:${server.port}`);
      const path = join(folder, `${name}-${kind}.cfg`);
      writeFileSync(path, configure(published, ports));
      const checked = spawnSync(program!, check(path), { encoding: 'utf8' });
      t.equal(checked.status, 0, 'the file is valid', { stderr: checked.stderr });

      const child = spawn('setpriv', ['--pdeathsig', 'KILL', program!, ...run(path)], {
        stdio: ['ignore', 'pipe', 'pipe'],
      });
      let log = '';
      for (const stream of [child.stdout, child.stderr])
        stream.setEncoding('utf8').on('data', (text: string) => {
          log += text;
        });
      const ended = once(child, 'exit');
      t.teardown(async () => {
        child.kill('SIGTERM');
        await ended;
      });
      t.ok(
        await eventually(() =>
          get(ports.tls, server.key, '/healthz').then(
            ({ status }) => status === 200,
            () => false,
          ),
        ),
        'serves',
        { log },
      );

      const answer = await get(ports.tls, server.key, '/v1/chat/completions', {
        model: 'hal-1.0',
        stream: true,
        ignore_eos: true,
        max_tokens: 300,
        messages: [{ role: 'user', content: 'Hello!' }],
      });
      t.equal(answer.status, 200);
      t.match(answer.text, /^data: \[DONE\]$/m);
      t.ok(
        answer.first < answer.text.length / 2,
        `${answer.first} of ${answer.text.length} bytes arrive in the first chunk`,
      );

      const status = await get(ports.tls, server.key, '/dashboard/api/status');
      t.match(status.text, /"first_user":true/);

      const redirect = await new Promise<{ status: number | undefined; location: string | undefined }>(
        (resolve, reject) => {
          httpRequest({ port: ports.plain, path: '/x', headers: { host: HOST } }, (response) => {
            response.resume();
            resolve({ status: response.statusCode, location: response.headers.location });
          })
            .on('error', reject)
            .end();
        },
      );
      t.equal(redirect.status, 301);
      t.match(redirect.location, new RegExp(`^https://${HOST}.*/x$`));

      const socket = new WebSocket(`wss://127.0.0.1:${ports.tls}/v1/responses`, {
        ca: cert,
        servername: HOST,
        headers: { host: HOST, authorization: `Bearer ${server.key}` },
      } as ClientOptions);
      await once(socket, 'open');
      socket.close();
      t.same((await once(socket, 'close'))[0], 1005, 'a WebSocket is opened and closed through the proxy');

      for (const nameless of [': x', ':', ': x\r\nContent-Length: 3'])
        t.match(
          await rawOverTls(ports.tls, `GET /healthz HTTP/1.1\r\nHost: ${HOST}\r\n${nameless}\r\n\r\n`),
          /^HTTP\/1\.1 400 /,
          `a header without a name is refused: ${JSON.stringify(nameless)}`,
        );

      // How long the proxy waits does not depend on the server, so each proxy is tested with only one server.
      if ((name === 'nginx') === (kind === 'node') || servers.size === 1) {
        await Promise.all(Array.from({ length: 8 }, () => get(ports.tls, server.key, '/v1/models')));
        const since = performance.now();
        t.ok(connectionsTo(server.port) > 0, 'the proxy keeps connections to the server');
        t.ok(await eventually(() => connectionsTo(server.port) === 0), 'the proxy closes idle connections');
        const after = Math.round(performance.now() - since);
        t.ok(after < 9_900, `before a server does that closes them after 10 s: after ${after} ms`);
      }
      t.equal((await get(ports.tls, server.key, '/v1/models')).status, 200, 'a later request is served');
    },
  );
}

/** Sends a request over TLS, with the server name in the certificate. With a body, the method is POST. */
function get(
  port: number,
  secret: string,
  path: string,
  body?: object,
): Promise<{ status: number | undefined; text: string; first: number }> {
  return new Promise((resolve, reject) => {
    const sent = request(
      {
        host: '127.0.0.1',
        port,
        path,
        method: body === undefined ? 'GET' : 'POST',
        servername: HOST,
        ca: cert,
        headers: {
          host: HOST,
          authorization: `Bearer ${secret}`,
          ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        },
      },
      (response) => {
        let text = '';
        let first = 0;
        response
          .setEncoding('utf8')
          .on('data', (piece: string) => {
            text += piece;
            if (first === 0) first = piece.length;
          })
          .on('end', () => resolve({ status: response.statusCode, text, first }))
          .on('error', reject);
      },
    );
    sent.on('error', reject).end(body === undefined ? undefined : JSON.stringify(body));
  });
}

function rawOverTls(port: number, bytes: string): Promise<string> {
  return new Promise((resolve) => {
    const socket = connect({ host: '127.0.0.1', port, servername: HOST, ca: cert }, () => socket.write(bytes));
    let text = '';
    socket.on('data', (piece) => {
      text += piece.toString();
    });
    socket.on('error', () => undefined).on('close', () => resolve(text));
    setTimeout(() => socket.destroy(), 3_000).unref();
  });
}

/** Number of established connections to a port of 127.0.0.1. */
function connectionsTo(port: number): number {
  const local = `:${port.toString(16).toUpperCase().padStart(4, '0')}`;
  return readFileSync('/proc/net/tcp', 'utf8')
    .split('\n')
    .map((line) => line.trim().split(/\s+/))
    .filter(([, address, , state]) => address?.endsWith(local) === true && state === '01').length;
}
