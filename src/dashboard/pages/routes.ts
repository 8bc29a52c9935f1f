// Serves the page: index.html for its every path, the files beside it under names that change with their content.
// index.html is small and always sent whole: a 304 would save a few hundred bytes and be a status more.

import { fileURLToPath } from 'node:url';
import { apiError } from '../../shared/errors.js';
import type { Exchange, Route } from '../../http/exchange.js';
import { PAGE_HEADERS } from '../security-headers.js';
import { codingFor, readBuiltPage } from './built-page.js';
import type { PageFile } from './built-page.js';

/** dist/web, beside the compiled server. */
const BUILT = fileURLToPath(new URL('../../web', import.meta.url));

// The page's own routes decide what a path shows; these are as deep as they go.
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
        serve(exchange) {
          const name = exchange.params['page'] ?? '';
          if (name === 'api' || name === 'assets' || name.includes('.'))
            throw apiError('unknown_endpoint', 'There is no such page of the dashboard.');
          if (built === null)
            throw apiError(
              'unknown_endpoint',
              'The page of the dashboard has not been built: "npm run build:web" builds it, then start the server again.',
            );
          exchange.setHeader('Cache-Control', 'no-cache');
          send(exchange, built.index);
        },
      }),
    ),
    {
      ...common,
      path: '/dashboard/assets/:file',
      serve(exchange) {
        const file = built?.assets.get(exchange.params['file'] as string);
        if (file === undefined)
          throw apiError(
            'unknown_endpoint',
            'There is no such file of the dashboard. A page from before an update asks for it: load the page again.',
          );
        exchange.setHeader('Cache-Control', 'public, max-age=31536000, immutable');
        send(exchange, file);
      },
    },
  ];
}

function send(exchange: Exchange, file: PageFile): void {
  const coding = codingFor(file, exchange.header('accept-encoding'));
  exchange.setHeader('Vary', 'Accept-Encoding');
  if (coding !== null) exchange.setHeader('Content-Encoding', coding);
  exchange.text(200, file.contentType, (coding === null ? undefined : file.coded[coding]) ?? file.plain);
}
