// The dashboard's security headers, for the API and for the page.

import type { HeaderList } from '../shared/errors.js';

/** Sent with every response. */
export const COMMON_HEADERS: HeaderList = [
  ['X-Content-Type-Options', 'nosniff'],
  ['Referrer-Policy', 'no-referrer'],
  ['Cross-Origin-Resource-Policy', 'same-origin'],
  ['Cross-Origin-Opener-Policy', 'same-origin'],
  ['X-Frame-Options', 'DENY'],
];

/** API responses are not cached, and a browser that displays one executes nothing in it. */
export const API_HEADERS: HeaderList = [
  ...COMMON_HEADERS,
  ['Cache-Control', 'no-store'],
  ['Content-Security-Policy', "default-src 'none'; frame-ancestors 'none'"],
];

/**
 * The page loads everything from this server and has no inline scripts or styles. Images dropped into the playground
 * are blob: and data: URLs.
 */
export const PAGE_HEADERS: HeaderList = pageHeaders("'self'");

/** Headers of the API reference page. They also allow inline styles, because Swagger UI sets them. */
export const REFERENCE_HEADERS: HeaderList = pageHeaders("'self' 'unsafe-inline'");

function pageHeaders(styles: string): HeaderList {
  return [
    ...COMMON_HEADERS,
    [
      'Content-Security-Policy',
      [
        "default-src 'none'",
        "script-src 'self'",
        `style-src ${styles}`,
        "img-src 'self' data: blob:",
        "connect-src 'self'",
        "font-src 'self'",
        "base-uri 'none'",
        "form-action 'self'",
        "frame-ancestors 'none'",
      ].join('; '),
    ],
  ];
}
