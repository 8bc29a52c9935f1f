// Runs deploy/nginx.conf and deploy/haproxy-tls.cfg in front of a real server. Only addresses and certificate paths are
// replaced.
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { request as httpRequest } from 'node:http';
import { request } from 'node:https';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import t from 'tap';
import { eventually, root, startMonolith } from '../e2e/monolith.js';
import { selfSigned } from '../support/certificate.js';
import { freePort } from '../support/free-port.js';

const HOST = 'models.example.com';
const find = (name: string): string | undefined =>
  [...(process.env['PATH'] ?? '').split(delimiter), '/usr/sbin']
    .map((folder) => join(folder, name))
    .find((path) => existsSync(path));

const server = await startMonolith({
  env: {
    MONOLITH_HTTP_TRUST_PROXY: 'true',
    MONOLITH_HTTP_ALLOWED_HOSTS: HOST,
    MONOLITH_DASHBOARD_URL: `https://${HOST}`,
  },
});
t.teardown(() => server.stop());
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
      const site = join(folder, 'site.conf');
      writeFileSync(
        site,
        text.replace('listen 80;', `listen 127.0.0.1:${plain};`).replace('listen 443 ', `listen 127.0.0.1:${tls} `),
      );
      mkdirSync(join(folder, 'temporary'), { recursive: true });
      const paths = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map(
        (one) => `${one}_temp_path ${join(folder, 'temporary', one)};`,
      );
      return `daemon off; pid ${join(folder, 'pid')}; error_log stderr;\nevents {}\nhttp { access_log off; ${paths.join(' ')} include ${site}; }\n`;
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

for (const { name, file, configure, check, run } of proxies) {
  const program = find(name);
  t.test(
    `${file} streams over TLS and redirects from HTTP`,
    { skip: program === undefined && `${name} is not installed (Debian: apt-get install ${name})` },
    async (t) => {
      const ports = { plain: await freePort(), tls: await freePort() };
      const published = readFileSync(join(root, 'deploy', file), 'utf8')
        .replaceAll(`/etc/ssl/${HOST}`, folder)
        .replaceAll('127.0.0.1:8080', `127.0.0.1:${server.port}`);
      const path = join(folder, `${name}.cfg`);
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
          get(ports.tls, '/healthz').then(
            ({ status }) => status === 200,
            () => false,
          ),
        ),
        'serves',
        { log },
      );

      const answer = await get(ports.tls, '/v1/chat/completions', {
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

      const status = await get(ports.tls, '/dashboard/api/status');
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
    },
  );
}

/** Sends a request over TLS, with the server name in the certificate. With a body, the method is POST. */
function get(
  port: number,
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
          authorization: `Bearer ${server.key}`,
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
