// Tests how the dashboard's files are served: cache headers, compression, the content security policy, and responses
// for paths without a page.
import { mkdtempSync, rmSync } from 'node:fs';
import { get as request } from 'node:http';
import type { IncomingHttpHeaders } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { brotliDecompressSync, gunzipSync } from 'node:zlib';
import { test } from 'tap';
import { codingFor } from '../../src/dashboard/pages/built-page.js';
import type { PageFile } from '../../src/dashboard/pages/built-page.js';
import { pageRoutes } from '../../src/dashboard/pages/routes.js';
import type { Exchange } from '../../src/http/exchange.js';
import { notBuilt } from '../support/browser.js';
import { startDashboard } from '../support/dashboard-server.js';

interface Answer {
  status: number;
  headers: IncomingHttpHeaders;
  body: Buffer;
}

// Uses node:http because fetch would decompress the body.
function get(url: string, headers: Record<string, string> = {}, method = 'GET'): Promise<Answer> {
  return new Promise((resolve, reject) => {
    request(url, { headers, method }, (response) => {
      const parts: Buffer[] = [];
      response
        .on('data', (part: Buffer) => parts.push(part))
        .on('end', () =>
          resolve({ status: response.statusCode ?? 0, headers: response.headers, body: Buffer.concat(parts) }),
        );
    }).on('error', reject);
  });
}

test('the dashboard page and its assets are served', { skip: notBuilt }, async (t) => {
  const dashboard = await startDashboard();
  t.teardown(() => dashboard.close());
  const { url } = dashboard;

  const index = await get(`${url}/dashboard`);
  t.equal(index.status, 200);
  t.equal(index.headers['content-type'], 'text/html; charset=utf-8');
  t.equal(index.headers['cache-control'], 'no-cache');
  t.equal(
    index.headers['content-security-policy'],
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; font-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
  );
  t.match(index.headers, {
    'x-content-type-options': 'nosniff',
    'referrer-policy': 'no-referrer',
    'cross-origin-opener-policy': 'same-origin',
    vary: 'Accept-Encoding',
  });
  t.notOk(index.headers['access-control-allow-origin'], 'other origins cannot read the page');
  const html = index.body.toString();
  t.notMatch(
    html,
    /<script(?![^>]* src=)|<style|style=|https?:\/\//,
    'the page has no inline code and loads nothing from other hosts',
  );
  for (const path of [
    '/',
    '/dashboard/',
    '/dashboard/keys',
    '/dashboard/operator/live',
    '/dashboard/signup?invite=x',
  ]) {
    t.equal((await get(url + path)).body.toString(), html, `${path} returns the page`);
  }

  const assets = [...html.matchAll(/(?:src|href)="(\/dashboard\/assets\/[^"]+)"/g)].map(([, path]) => path as string);
  t.ok(assets.length >= 3, 'the page refers to a script, a style sheet and an icon');
  for (const path of assets) {
    const plain = await get(url + path);
    t.equal(plain.status, 200);
    t.equal(plain.headers['cache-control'], 'public, max-age=31536000, immutable');
    t.notOk(plain.headers['content-encoding']);
    t.match(
      plain.headers['content-type'],
      path.endsWith('.js') ? /^text\/javascript/ : path.endsWith('.css') ? /^text\/css/ : /^image\/svg/,
    );
    const br = await get(url + path, { 'accept-encoding': 'gzip, deflate, br' });
    t.equal(br.headers['content-encoding'], 'br');
    t.ok(brotliDecompressSync(br.body).equals(plain.body), 'the brotli form decompresses to the same content');
    const gzip = await get(url + path, { 'accept-encoding': 'gzip, br;q=0' });
    t.equal(gzip.headers['content-encoding'], 'gzip');
    t.ok(gunzipSync(gzip.body).equals(plain.body), 'the gzip form decompresses to the same content');
    const head = await get(url + path, { 'accept-encoding': 'br' }, 'HEAD');
    t.equal(head.status, 200);
    t.equal(Number(head.headers['content-length']), br.body.length);
    t.equal(head.body.length, 0);
  }

  for (const path of [
    '/dashboard/assets/gone-12345678.js',
    '/dashboard/assets/..%2findex.html',
    '/dashboard/favicon.ico',
    '/dashboard/api',
    '/dashboard/a/b',
  ]) {
    const answer = await get(url + path);
    t.equal(answer.status, 404, path);
    t.equal((JSON.parse(answer.body.toString()) as { error: { code: string } }).error.code, 'unknown_endpoint');
  }
  t.equal((await get(`${url}/dashboard`, {}, 'POST')).status, 404, 'the page supports only GET and HEAD');
  const description = JSON.parse((await get(`${url}/openapi.json`)).body.toString()) as { paths: object };
  t.notOk(
    Object.keys(description.paths).some((path) => path.startsWith('/dashboard')),
    'the OpenAPI description has no dashboard routes',
  );

  await dashboard.restart({ dashboard: { enabled: false } });
  for (const path of ['/', '/dashboard', assets[0] as string])
    t.equal((await get(dashboard.url + path)).status, 404, `${path} returns 404 when the dashboard is disabled`);
});

test('if the page was not built, the response says how to build it', (t) => {
  const empty = mkdtempSync(join(tmpdir(), 'monolith-page-'));
  t.teardown(() => rmSync(empty, { recursive: true, force: true }));
  const route = pageRoutes(empty).find(({ path }) => path === '/dashboard');
  t.throws(
    () => route?.handler({ params: {}, setHeader: () => undefined } as unknown as Exchange),
    /npm run build:web/,
  );
  t.end();
});

test('Accept-Encoding', (t) => {
  const both: PageFile = {
    contentType: '',
    plain: Buffer.from(''),
    coded: { br: Buffer.from(''), gzip: Buffer.from('') },
  };
  const cases: [string, string | null][] = [
    ['', null],
    ['identity', null],
    ['gzip', 'gzip'],
    ['gzip;q=0.5, br;q=1.0', 'br'],
    ['BR', 'br'],
    ['*', 'br'],
    ['br;q=0, *', 'gzip'],
    ['gzip;q=0', null],
    ['deflate, zstd', null],
    ['br ; q=0.0', null],
  ];
  for (const [header, wanted] of cases) t.equal(codingFor(both, header), wanted, header);
  t.equal(codingFor({ ...both, coded: {} }, 'br, gzip'), null, 'a file that does not get smaller is sent uncompressed');
  t.end();
});
