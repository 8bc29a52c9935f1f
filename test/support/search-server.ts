// A search service that responds in SearXNG's format, over real sockets.
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';

export type SearchAnswer = (response: ServerResponse, query: string, request: IncomingMessage) => void;

export interface SearchServer {
  /** The value of the setting `tools.web_search.url`. */
  readonly url: string;
  readonly queries: string[];
  /** Number of requests whose connection was closed before their response was complete. */
  readonly left: number;
  answer: SearchAnswer;
  close(): Promise<void>;
}

export const page = (host: string, more: object = {}): object => ({
  title: `About ${host}`,
  url: `https://${host}/page`,
  content: `The text of ${host}.`,
  engine: 'test',
  score: 1,
  ...more,
});

export const results =
  (...entries: object[]): SearchAnswer =>
  (response) => {
    response
      .writeHead(200, { 'content-type': 'application/json' })
      .end(JSON.stringify({ query: 'x', number_of_results: entries.length, results: entries }));
  };

export async function startSearchServer(answer: SearchAnswer = results(page('a.example'))): Promise<SearchServer> {
  const queries: string[] = [];
  const sockets = new Set<Socket>();
  let left = 0;
  const http = createServer((request, response) => {
    const url = new URL(request.url ?? '/', 'http://localhost');
    const query = url.searchParams.get('q') ?? '';
    queries.push(query);
    response.on('close', () => {
      if (!response.writableEnded) left++;
    });
    server.answer(response, query, request);
  }).on('connection', (socket) => {
    sockets.add(socket.on('error', () => undefined));
  });
  await new Promise<void>((resolve) => http.listen(0, '127.0.0.1', resolve));
  const server: SearchServer = {
    url: `http://127.0.0.1:${(http.address() as AddressInfo).port}/search?q={query}&format=json`,
    queries,
    answer,
    get left() {
      return left;
    },
    close: () =>
      new Promise((resolve) => {
        http.close(() => resolve());
        for (const socket of sockets) socket.destroy();
      }),
  };
  return server;
}
