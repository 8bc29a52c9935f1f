// A local trace collector: OTLP over HTTP in protobuf. It decodes messages by the published field numbers
// (opentelemetry-proto, trace/v1 and common/v1) and shares no code with the exporter.
import { createServer, type IncomingHttpHeaders } from 'node:http';
import type { AddressInfo } from 'node:net';

export type Fact = string | number | boolean | (string | number | boolean)[];
export interface SeenSpan {
  traceId: string;
  spanId: string;
  parentId: string;
  name: string;
  kind: number;
  traceState: string;
  /** Milliseconds since the Unix epoch. */
  start: number;
  end: number;
  facts: Record<string, Fact>;
  status: { code: number; message: string };
  resource: Record<string, Fact>;
}

export interface OtlpReceiver {
  /** Base URL, without /v1/traces. */
  readonly url: string;
  readonly spans: SeenSpan[];
  readonly requests: { path: string; headers: IncomingHttpHeaders; body: Buffer }[];
  /** `hangs`: reads the request but never responds. */
  behavior: 'takes' | 'hangs' | 'refuses';
  close(): Promise<void>;
}

export async function startOtlpReceiver(): Promise<OtlpReceiver> {
  const server = createServer((request, response) => {
    const parts: Buffer[] = [];
    request.on('data', (part: Buffer) => parts.push(part));
    request.on('end', () => {
      const body = Buffer.concat(parts);
      receiver.requests.push({ path: request.url ?? '', headers: request.headers, body });
      if (receiver.behavior === 'hangs') return;
      if (receiver.behavior === 'takes') receiver.spans.push(...spansOf(body));
      response.writeHead(receiver.behavior === 'takes' ? 200 : 400, { 'content-type': 'application/x-protobuf' }).end();
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const receiver: OtlpReceiver = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    spans: [],
    requests: [],
    behavior: 'takes',
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
  return receiver;
}

type Fields = Map<number, (Buffer | bigint)[]>;

/** Decodes a protobuf message into its fields by number. Each value is either bytes or a number. */
function fieldsOf(bytes: Buffer): Fields {
  const fields: Fields = new Map();
  let at = 0;
  const varint = (): bigint => {
    let value = 0n;
    for (let shift = 0n; ; shift += 7n) {
      const byte = bytes[at++];
      if (byte === undefined) throw new Error('a protobuf message ends early');
      value |= BigInt(byte & 0x7f) << shift;
      if (byte < 0x80) return BigInt.asUintN(64, value);
    }
  };
  while (at < bytes.length) {
    const key = Number(varint());
    let value: Buffer | bigint;
    switch (key & 7) {
      case 0:
        value = varint();
        break;
      case 1:
        value = bytes.readBigUInt64LE(at);
        at += 8;
        break;
      case 2: {
        const length = Number(varint());
        value = bytes.subarray(at, at + length);
        at += length;
        break;
      }
      case 5:
        value = BigInt(bytes.readUInt32LE(at));
        at += 4;
        break;
      default:
        throw new Error(`unexpected protobuf wire type ${key & 7}`);
    }
    fields.set(key >> 3, [...(fields.get(key >> 3) ?? []), value]);
  }
  return fields;
}

const messages = (fields: Fields, number: number): Fields[] =>
  (fields.get(number) ?? []).map((one) => fieldsOf(one as Buffer));
const bytesOf = (fields: Fields, number: number): Buffer =>
  (fields.get(number)?.[0] as Buffer | undefined) ?? Buffer.alloc(0);
const numberOf = (fields: Fields, number: number): bigint => (fields.get(number)?.[0] as bigint | undefined) ?? 0n;

function valueOf(value: Fields): Fact {
  if (value.has(1)) return bytesOf(value, 1).toString();
  if (value.has(2)) return numberOf(value, 2) === 1n;
  if (value.has(3)) return Number(BigInt.asIntN(64, numberOf(value, 3)));
  if (value.has(4)) {
    const bits = Buffer.alloc(8);
    bits.writeBigUInt64LE(numberOf(value, 4));
    return bits.readDoubleLE();
  }
  return messages(messages(value, 5)[0] ?? new Map(), 1).map(valueOf) as (string | number | boolean)[];
}

const factsOf = (fields: Fields, number: number): Record<string, Fact> =>
  Object.fromEntries(
    messages(fields, number).map((pair) => [bytesOf(pair, 1).toString(), valueOf(messages(pair, 2)[0] ?? new Map())]),
  );

function spansOf(body: Buffer): SeenSpan[] {
  return messages(fieldsOf(body), 1).flatMap((group) => {
    const resource = factsOf(messages(group, 1)[0] ?? new Map(), 1);
    return messages(group, 2)
      .flatMap((scope) => messages(scope, 2))
      .map((span) => {
        const status = messages(span, 15)[0] ?? new Map();
        return {
          traceId: bytesOf(span, 1).toString('hex'),
          spanId: bytesOf(span, 2).toString('hex'),
          traceState: bytesOf(span, 3).toString(),
          parentId: bytesOf(span, 4).toString('hex'),
          name: bytesOf(span, 5).toString(),
          kind: Number(numberOf(span, 6)),
          start: Number(numberOf(span, 7)) / 1e6,
          end: Number(numberOf(span, 8)) / 1e6,
          facts: factsOf(span, 9),
          status: { code: Number(numberOf(status, 3)), message: bytesOf(status, 2).toString() },
          resource,
        };
      });
  });
}
