// The headers that tell browsers what answers of the dashboard may be used for, in one place for its API and
// its page.

import type { HeaderList } from '../shared/errors.js';

/** On every answer, whoever reads it. */
export const COMMON_HEADERS: HeaderList = [
  ['X-Content-Type-Options', 'nosniff'],
  ['Referrer-Policy', 'no-referrer'],
  ['Cross-Origin-Resource-Policy', 'same-origin'],
  ['Cross-Origin-Opener-Policy', 'same-origin'],
  ['X-Frame-Options', 'DENY'],
];

/** Of the API: nothing of it is kept, and nothing of it runs where a browser is made to show it. */
export const API_HEADERS: HeaderList = [
  ...COMMON_HEADERS,
  ['Cache-Control', 'no-store'],
  ['Content-Security-Policy', "default-src 'none'; frame-ancestors 'none'"],
];

/** Of the page: everything comes from this server, no script or style stands in the HTML. Pictures dropped into the playground are blob: and data:. */
export const PAGE_HEADERS: HeaderList = [
  ...COMMON_HEADERS,
  [
    'Content-Security-Policy',
    [
      "default-src 'none'",
      "script-src 'self'",
      "style-src 'self'",
      "img-src 'self' data: blob:",
      "connect-src 'self'",
      "font-src 'self'",
      "base-uri 'none'",
      "form-action 'self'",
      "frame-ancestors 'none'",
    ].join('; '),
  ],
];
