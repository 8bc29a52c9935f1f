// HTTP connections and WebSockets.
import * as kind from '../kinds.js';
import { setting } from './setting.js';

export const http = {
  max_body_bytes: setting(
    kind.bytes(1024, 1024 ** 3),
    33_554_432,
    'Maximum size of a request body, in bytes, before and after decompression. Requests with a larger body are rejected with 413.',
  ),
  max_header_bytes: setting(
    kind.bytes(4096, 1_048_576),
    16_384,
    'Maximum total size of the request line and all headers, in bytes. Requests over the limit are rejected with 400.',
  ),
  max_reading_bytes: setting(
    kind.bytes(1024, 1024 ** 4),
    536_870_912,
    'Memory for request bodies that are being read or decompressed, in bytes; one organization may use half. Requests over the limit are rejected with 503. The effective minimum is twice http.max_body_bytes.',
  ),
  max_answering_bytes: setting(
    kind.bytes(1024, 1024 ** 4),
    536_870_912,
    'Memory for responses of 64 KiB or more, in bytes, held until the client has read them; one organization may use half. Requests over the limit are rejected with 503.',
  ),
  keepalive_ms: setting(
    kind.integer(100, 3_600_000),
    15_000,
    'Interval between keep-alive messages on an idle stream, in ms. Response headers are sent within this time, even if there is no event yet.',
  ),
  cors_origins: setting(kind.list, ['*'], 'Origins from which browsers may call the API; * = any.', { shown: '*' }),
  threads: setting(
    kind.integer(1, 64),
    1,
    'HTTP worker threads. If there is more than one, the workers serve all connections and share the engine, the limits and the database. With http.server "node", more than one requires Node.js 22.12 or later.',
    { main: true },
  ),
  unready_ms: setting(
    kind.integer(0, 600_000),
    0,
    'Delay after SIGTERM, in ms, during which /readyz returns 503 but requests are still accepted, so that a load balancer can remove the server; 0 = none.',
  ),
  trust_proxy: setting(
    kind.flag,
    false,
    'Take the client address and scheme from X-Forwarded-For and X-Forwarded-Proto. Enable only behind a proxy that sets both headers.',
  ),
  allowed_hosts: setting(
    kind.list,
    [],
    'Host names accepted in the Host header, in addition to loopback names, IP addresses and `host`; * = any. Protects against DNS rebinding.',
    { shown: 'none' },
  ),
  stream_buffer_bytes: setting(
    kind.bytes(16_384, 1024 ** 3),
    1_048_576,
    'Maximum unsent data of one stream, in bytes. A client that reads too slowly and exceeds this limit is disconnected, and its request is cancelled.',
  ),
  server: setting(
    kind.choice('auto', 'uws', 'node'),
    'auto',
    'HTTP server: uws (uWebSockets.js, a binary), node (part of Node.js, slower), or auto (uws if its binary loads).',
  ),
  idle_ms: setting(
    kind.integer(1_000, 3_600_000),
    75_000,
    'Idle timeout of keep-alive connections, in ms. Applies only to http.server "node"; uws closes idle connections after about 30 seconds.',
  ),
  library: setting(
    kind.nullable(kind.path),
    null,
    'Path to a uWebSockets.js binary or package folder to load instead of the installed package.',
    { shown: 'the installed package' },
  ),
};

export const ws = {
  max_age_s: setting(
    kind.integer(1, 86_400),
    3_600,
    'Maximum age of a WebSocket connection, in seconds. Older connections accept no new requests.',
  ),
  max_connections: setting(
    kind.integer(1, 1_000_000),
    64,
    'Maximum open WebSocket connections per organization; further connections are rejected with 429. The number of connections times ws.max_message_bytes must fit into half of http.max_reading_bytes; connections beyond that are rejected with 503.',
  ),
  max_message_bytes: setting(
    kind.bytes(1024, 1024 ** 3),
    4_194_304,
    'Maximum size of a WebSocket message, in bytes. A larger message closes the connection with code 1009.',
  ),
};
