// GET /openapi.json: the description of everything public, for code generators and the curious. Needs no key.
import type { Route } from '../../http/exchange.js';
import { openApiDocument, type PublishedLimits } from './document.js';

export function openApiRoute(limits: PublishedLimits): Route {
  let text: string | null = null;
  return {
    method: 'GET',
    path: '/openapi.json',
    scope: null,
    public: true,
    serve(exchange) {
      text ??= JSON.stringify(openApiDocument(limits));
      exchange.text(200, 'application/json; charset=utf-8', text);
    },
  };
}
