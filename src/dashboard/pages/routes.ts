// Serves the dashboard's page (index.html for each of its paths), the API reference at /docs, and their assets under
// names that contain a hash of the content. The HTML files are small and always sent in full, because a 304 would save
// only a few hundred bytes.

import { fileURLToPath } from 'node:url';
import { apiError } from '../../shared/errors.js';
import type { Exchange, Route } from '../../http/exchange.js';
import { PAGE_HEADERS, REFERENCE_HEADERS } from '../security-headers.js';
import { codingFor, readBuiltPage } from './built-page.js';
import type { PageFile } from './built-page.js';

/** dist/web, next to the compiled server. */
const BUILT = fileURLToPath(new URL('../../web', import.meta.url));

// The page's client-side router decides what to show for a path. These patterns only need to match all of its paths.
const PAGE_PATHS = [
  '/',
  '/dashboard',
  '/dashboard/:page',
  '/dashboard/operator/:page',
  '/dashboard/shared/:organization/:id',
];

export function pageRoutes(folder: string = BUILT): Route[] {
  const built = readBuiltPage(folder);
  const common = { method: 'GET', scope: null, public: true, sameOrigin: true, headers: PAGE_HEADERS } as const;
  return [
    ...PAGE_PATHS.map(
      (path): Route => ({
        ...common,
        path,
        handler(exchange) {
          const name = exchange.params['page'] ?? '';
          if (name === 'api' || name === 'assets' || name.includes('.'))
            throw apiError('unknown_endpoint', 'Dashboard page not found.');
          sendPage(exchange, built?.index);
        },
      }),
    ),
    {
      ...common,
      path: '/docs',
      headers: REFERENCE_HEADERS,
      handler: (exchange) => sendPage(exchange, built?.apiReference),
    },
    {
      ...common,
      path: '/dashboard/assets/:file',
      handler(exchange) {
        const file = built?.assets.get(exchange.params['file'] as string);
        if (file === undefined)
          throw apiError(
            'unknown_endpoint',
            'Dashboard file not found. This page may be out of date after an update: reload it.',
          );
        exchange.setHeader('Cache-Control', 'public, max-age=31536000, immutable');
        send(exchange, file);
      },
    },
  ];
}

function sendPage(exchange: Exchange, page: PageFile | undefined): void {
  if (page === undefined)
    throw apiError(
      'unknown_endpoint',
      'The dashboard page has not been built. Run "npm run build:web" and restart the server.',
    );
  exchange.setHeader('Cache-Control', 'no-cache');
  send(exchange, page);
}

function send(exchange: Exchange, file: PageFile): void {
  const coding = codingFor(file, exchange.header('accept-encoding'));
  exchange.setHeader('Vary', 'Accept-Encoding');
  if (coding !== null) exchange.setHeader('Content-Encoding', coding);
  exchange.text(200, file.contentType, (coding === null ? undefined : file.coded[coding]) ?? file.plain);
}
