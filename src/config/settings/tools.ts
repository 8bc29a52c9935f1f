// Tools that the server runs itself.
import * as kind from '../kinds.js';
import { setting } from './setting.js';

export const tools = {
  web_search: {
    url: setting(
      kind.nullable(kind.searchUrl),
      null,
      "Search URL of a service that returns JSON in SearXNG's format, for example http://127.0.0.1:8888/search?q={query}&format=json. If unset, the server runs no web searches.",
      { secret: true },
    ),
    results: setting(kind.integer(1, 20), 5, 'Maximum number of results per web search.'),
    timeout_ms: setting(kind.integer(100, 120_000), 10_000, 'Timeout of one web search, in ms.'),
  },
};
