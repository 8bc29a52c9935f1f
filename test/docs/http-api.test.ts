// Checks that docs/reference/http-api.md lists exactly the routes of the public API.

import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { packageRoot } from '../../src/engine/load-addon.js';
import { healthRoutes, type HealthOptions } from '../../src/http/health-routes.js';
import { openApiDocument } from '../../src/protocol/openapi/document.js';
import { openApiRoute } from '../../src/protocol/openapi/routes.js';

const page = readFileSync(join(packageRoot, 'docs', 'reference', 'http-api.md'), 'utf8');

/** Rows of the routes table: `METHOD path`. */
const listed = (text: string): string[] =>
  [...text.matchAll(/^\| ([A-Z]+) \| `(\/[^`]*)` \|/gm)].map(([, method, path]) => `${method} ${path}`).sort();

const paths = openApiDocument({ maxN: 8 })['paths'] as Record<string, Record<string, unknown>>;
const served = [
  ...Object.entries(paths).flatMap(([path, methods]) =>
    Object.keys(methods).map((method) => `${method.toUpperCase()} ${path}`),
  ),
  ...[...healthRoutes({} as HealthOptions), openApiRoute({ maxN: 8 })].map(({ method, path }) => `${method} ${path}`),
  'GET /docs',
  'GET /v1/responses', // the WebSocket endpoint, which OpenAPI cannot describe
];

t.test('the page lists every public route and no other', async (t) => {
  t.ok(served.length > 20, `${served.length} routes`);
  t.same(listed(page), [...new Set(served)].sort());
});

t.test('a missing row is found', async (t) => {
  t.notSame(listed(page.replace(/^\| POST \| `\/tokenize`.*\n/m, '')), [...new Set(served)].sort());
});
