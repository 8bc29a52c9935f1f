// Ways in which one organization may try to slow down others. Each attack is a load that runs until it is stopped. It
// runs in a separate process at the lowest priority, so that the measured effect is due to the server's work and not to
// this client. The process is started with fork(). The first message defines the attack; after the second message, the
// process replies with its counts and exits.

import { fork, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { Agent, request } from 'node:http';
import { connect } from 'node:net';
import { constants, getPriority, setPriority } from 'node:os';
import { fileURLToPath, pathToFileURL } from 'node:url';
import sharp from 'sharp';

export const ATTACKS = {
  prompts: 'long unique prompts that request one token',
  bodies: 'refused chats with very many messages',
  schemas: 'structured outputs with a new schema each',
  readers: 'long responses that the client does not read',
  churn: 'connections dropped during the head, the body or the response',
  images: 'requests with a new image each',
  logprobs: 'long-prompt completions with twenty log-probabilities per token, requested twice',
  reads: 'repeated reads of a stored input of 20 MB',
  chains: 'short requests that continue a stored conversation of 20 MB',
  bursts: 'bursts of 1,000 short streams within a second, repeated when they have finished',
} as const;
export type AttackName = keyof typeof ATTACKS;

export interface Attack {
  readonly name: AttackName;
  readonly port: number;
  readonly key: string;
  readonly model: string;
  readonly clients: number;
}

/**
 * Counts by HTTP status and error code. `broken` counts connections that ended before the response did. `opened` counts
 * the sockets opened by attacks that do not wait for a response.
 */
export type AttackCounts = Readonly<Record<string, number>>;

/** A process that runs an attack. */
export class Attacker {
  private constructor(private readonly child: ChildProcess) {}

  static start(attack: Attack): Attacker {
    const child = fork(fileURLToPath(import.meta.url), [], {
      stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
      execArgv: [],
    });
    child.send(attack);
    return new Attacker(child);
  }

  async stop(): Promise<AttackCounts> {
    if (this.child.exitCode !== null) throw new Error(`an attack process exited with ${this.child.exitCode}`);
    const exited = once(this.child, 'exit');
    this.child.send('stop');
    const [counts] = (await once(this.child, 'message')) as [AttackCounts];
    this.child.kill('SIGKILL');
    await exited;
    return counts;
  }
}

const counts: Record<string, number> = {};
const count = (what: string): void => {
  counts[what] = (counts[what] ?? 0) + 1;
};

let made = 0;
const WORDS = ['lamp', 'river', 'stone', 'cloud', 'paper', 'winter', 'glass', 'engine', 'garden', 'signal'];
const fresh = (words: number): string =>
  `${++made} ` + Array.from({ length: words }, () => WORDS[Math.floor(Math.random() * WORDS.length)]).join(' ');

const chat = (model: string, content: unknown, most: number, more: object = {}): Buffer =>
  Buffer.from(
    JSON.stringify({
      model,
      stream: true,
      max_completion_tokens: most,
      messages: [{ role: 'user', content }],
      ...more,
    }),
  );

function schema(): object {
  const properties = Object.fromEntries(
    Array.from({ length: 6 }, (_, i) => [
      `p${made}_${i}`,
      {
        anyOf: [
          { type: 'string', pattern: `^[a-f]{${1 + (i % 7)},${20 + i}}-\\d{2,9}$` },
          { type: 'array', items: { enum: [fresh(2), fresh(3), i] }, maxItems: 9 },
        ],
      },
    ]),
  );
  return {
    response_format: {
      type: 'json_schema',
      json_schema: {
        name: `s${made}`,
        strict: true,
        schema: { type: 'object', properties, required: Object.keys(properties), additionalProperties: false },
      },
    },
  };
}

const SIDE = 1_024;
const pixels = Buffer.alloc(3 * SIDE * SIDE).map((_, index) => (index * 31) & 255);
async function picture(): Promise<string> {
  pixels.fill(++made & 255, 0, 3 * SIDE * 16);
  pixels[made % pixels.length] = made >> 8;
  const bytes = await sharp(pixels, { raw: { width: SIDE, height: SIDE, channels: 3 } })
    .jpeg()
    .toBuffer();
  return `data:image/jpeg;base64,${bytes.toString('base64')}`;
}

const agent = new Agent({ keepAlive: true });

/**
 * Sends a POST request, or a GET request if `body` is null. Resolves with the start of the response body, or with an
 * empty string if the connection broke.
 */
function post({ port, key }: Attack, body: Buffer | null, path = '/v1/chat/completions'): Promise<string> {
  return new Promise((resolve) => {
    const headers = {
      authorization: `Bearer ${key}`,
      ...(body === null ? {} : { 'content-type': 'application/json', 'content-length': body.length }),
    };
    const asked = request(
      { host: '127.0.0.1', port, method: body === null ? 'GET' : 'POST', path, agent, headers },
      (response) => {
        let said = '';
        response.on('data', (bytes: Buffer) => {
          if (said.length < 2_000) said += bytes.toString('utf8', 0, 2_000);
        });
        response
          .on('end', () => {
            const code = response.statusCode === 200 ? '' : (/"code": *"([^"]*)"/.exec(said)?.[1] ?? '');
            count(`${response.statusCode} ${code}`.trim());
            resolve(said);
          })
          .on('error', () => {
            count('broken');
            resolve('');
          });
      },
    );
    asked.on('error', () => {
      count('broken');
      resolve('');
    });
    asked.end(body ?? undefined);
  });
}

/** Four prompts of 1,900 tokens each, which request about 320,000 log probabilities in total. */
const scored = (model: string): Buffer =>
  Buffer.from(
    JSON.stringify({
      model,
      prompt: Array.from({ length: 4 }, () =>
        Array.from({ length: 1_900 }, () => 300 + Math.floor(Math.random() * 1_500)),
      ),
      max_tokens: 1,
      echo: true,
      logprobs: 20,
      prompt_logprobs: 20,
    }),
  );

let stored: Promise<string> | undefined; // one per process
/** Returns the id of a stored response whose 20 MB input is truncated for the model. */
function large(attack: Attack): Promise<string> {
  const input = [
    { role: 'user', content: 'x'.repeat(20_000_000) },
    { role: 'assistant', content: 'ok' },
    { role: 'user', content: 'Hi' },
  ];
  return (stored ??= post(
    attack,
    Buffer.from(JSON.stringify({ model: attack.model, truncation: 'auto', max_output_tokens: 16, input })),
    '/v1/responses',
  ).then((said) => {
    const id = /"id": *"(resp_[^"]*)"/.exec(said)?.[1];
    if (id === undefined) throw new Error(`storing the response to attack with failed: ${said}`);
    return id;
  }));
}

const headOf = ({ port, key }: Attack, length: number): string =>
  `POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\nAuthorization: Bearer ${key}\r\nContent-Type: application/json\r\nContent-Length: ${length}\r\n\r\n`;

/**
 * Sends a request whose response is never read. Resolves when the server closes the connection, so that the next
 * request can start.
 */
function unread(attack: Attack): Promise<void> {
  return new Promise((resolve) => {
    const body = chat(attack.model, fresh(4), 1_000, { ignore_eos: true });
    const socket = connect({ port: attack.port, host: '127.0.0.1' }).pause();
    count('opened');
    socket
      .on('error', () => undefined)
      .on('close', () => {
        count('broken');
        resolve();
      });
    socket.write(headOf(attack, body.length));
    socket.write(body);
  });
}

/** Drops a connection while sending the head, while sending the body, or as soon as the response has started. */
function dropped(attack: Attack): Promise<void> {
  return new Promise((resolve) => {
    const body = chat(attack.model, fresh(8), 1_000);
    const head = headOf(attack, body.length);
    const socket = connect({ port: attack.port, host: '127.0.0.1' });
    count('opened');
    socket.on('error', () => undefined).on('close', () => resolve());
    const stage = made % 3;
    if (stage === 0) socket.write(head.slice(0, head.length >> 1), () => socket.resetAndDestroy());
    else if (stage === 1) socket.write(head + body.toString('utf8').slice(0, 40), () => socket.resetAndDestroy());
    else socket.once('data', () => socket.destroy()).write(head + body.toString('utf8'));
  });
}

/** Number of streams across all clients. */
const BURST = 1_000;
// The list is built only once, so that the load is on the server and not on this client.
const MANY_MESSAGES = '['.concat(Array.from({ length: 100_000 }, () => '{"role":"user","content":"x"}').join(','), ']');

const ROUNDS: Record<AttackName, (attack: Attack) => Promise<void>> = {
  prompts: async (attack) => void (await post(attack, chat(attack.model, fresh(400), 1))),
  bodies: async (attack) =>
    void (await post(attack, Buffer.from(`{"model":"${attack.model}","messages":${MANY_MESSAGES}}`))),
  schemas: async (attack) => void (await post(attack, chat(attack.model, fresh(4), 16, schema()))),
  readers: unread,
  churn: dropped,
  images: async (attack) =>
    void (await post(
      attack,
      chat(
        attack.model,
        [
          { type: 'text', text: fresh(4) },
          { type: 'image_url', image_url: { url: await picture() } },
        ],
        4,
      ),
    )),
  logprobs: async (attack) => void (await post(attack, scored(attack.model), '/v1/completions')),
  reads: async (attack) => void (await post(attack, null, `/v1/responses/${await large(attack)}/input_items`)),
  bursts: async (attack) =>
    void (await Promise.all(
      Array.from({ length: Math.ceil(BURST / attack.clients) }, () => post(attack, chat(attack.model, fresh(8), 4))),
    )),
  chains: async (attack) =>
    void (await post(
      attack,
      Buffer.from(
        JSON.stringify({
          model: attack.model,
          truncation: 'auto',
          previous_response_id: await large(attack),
          max_output_tokens: 16,
          store: false,
          input: 'Hi',
        }),
      ),
      '/v1/responses',
    )),
};

const isMain = process.argv[1] !== undefined && import.meta.url === pathToFileURL(process.argv[1]).href;
if (isMain && process.send !== undefined) {
  setPriority(Math.max(getPriority(), constants.priority.PRIORITY_BELOW_NORMAL));
  process.once('message', (attack) => {
    const asked = attack as Attack;
    const client = async (): Promise<never> => {
      for (;;) await ROUNDS[asked.name](asked);
    };
    for (let i = 0; i < asked.clients; i++) void client();
    process.on('message', () => process.send?.(counts));
    process.on('disconnect', () => process.exit());
  });
}
