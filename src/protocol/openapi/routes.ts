// GET /openapi.json: the OpenAPI description of the public API, for code generators and developers. Requires no key.
import type { Route } from '../../http/exchange.js';
import { openApiDocument, type PublishedLimits } from './document.js';

export function openApiRoute(limits: PublishedLimits): Route {
  let text: string | null = null;
  return {
    method: 'GET',
    path: '/openapi.json',
    scope: null,
    public: true,
    handler(exchange) {
      text ??= JSON.stringify(openApiDocument(limits));
      exchange.text(200, 'application/json; charset=utf-8', text);
    },
  };
}
